"""A purchase as callers see it: the specification's record, and how it stands."""

from pydantic import BaseModel, ConfigDict, Field

from libs.contracts.purchases import Purchase, PurchaseStatus
from libs.purchases.vault import Vault
from libs.tally.errors import timestamp

SHOWN_CHARACTERS = 4
LEAST_HIDDEN = 8


class VotesShown(BaseModel):
    contest_key: str
    participant_key: str
    count: int


class SubscriptionShown(BaseModel):
    is_auto_renew: bool | None
    grace_end: str | None
    expiration: str | None
    access: bool | None


class RefusalShown(BaseModel):
    """Why the votes could not be cast: the code and message of the error that a voter would have got."""

    code: str
    reason: str


class PurchaseShown(BaseModel):
    """One purchase. `status` and `refusal` are additions to the specification's record."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "key": "q3Lk0bYw3m8Jb2oZ0l9uXQ",
                    "created": "2026-05-01T18:00:00.000000Z",
                    "updated": "2026-05-01T18:00:00.300000Z",
                    "package_key": "votes-50",
                    "shop_key": "shop-1",
                    "price": 499,
                    "purchase_platform": "google_play",
                    "purchase_token": "GPA.…",
                    "type": "vote",
                    "subscription": None,
                    "vote": {"contest_key": "c1", "participant_key": "p1", "count": 50},
                    "status": "cast",
                    "refusal": None,
                }
            ]
        }
    )

    key: str
    created: str
    updated: str = Field(description="When the status changed last.")
    package_key: str | None
    shop_key: str | None
    price: int | None
    purchase_platform: str | None
    purchase_token: str = Field(
        description="Whole for keys with purchases:write; else its first 4 characters and …, or … if it is short."
    )
    type: str
    subscription: SubscriptionShown | None
    vote: VotesShown | None
    status: PurchaseStatus = Field(
        description="`recorded`, until the votes are `cast` or `refused`; `refunded` once that was said."
    )
    refusal: RefusalShown | None


class RefundShown(BaseModel):
    """A refund of a purchase that has not come yet: nothing of it will be cast."""

    key: str
    status: PurchaseStatus


def show(purchase: Purchase, vault: Vault, *, whole_token: bool) -> PurchaseShown:
    """Of a purchase that has come. Raises `SecretLost`."""
    recorded = purchase.recorded
    assert recorded is not None, "only its refund has come"
    token = vault.unseal(purchase.key, recorded.sealed).purchase_token
    subscription, vote = recorded.subscription, recorded.vote
    return PurchaseShown(
        key=purchase.key,
        created=_time(purchase.created),
        updated=_time(purchase.updated),
        package_key=recorded.package_key,
        shop_key=recorded.shop_key,
        price=recorded.price,
        purchase_platform=recorded.purchase_platform,
        purchase_token=token if whole_token else mask(token),
        type=recorded.kind,
        subscription=None
        if subscription is None
        else SubscriptionShown(
            is_auto_renew=subscription.is_auto_renew,
            grace_end=timestamp(subscription.grace_end),
            expiration=timestamp(subscription.expiration),
            access=subscription.access,
        ),
        vote=None
        if vote is None
        else VotesShown(contest_key=vote.contest_key, participant_key=vote.participant_key, count=vote.count),
        status=purchase.status,
        refusal=None if purchase.refusal is None else RefusalShown(**purchase.refusal._asdict()),
    )


def mask(token: str) -> str:
    """Enough to recognise it by, never enough to use it."""
    return ("" if len(token) < SHOWN_CHARACTERS + LEAST_HIDDEN else token[:SHOWN_CHARACTERS]) + "…"


def _time(microseconds: int) -> str:
    text = timestamp(microseconds)
    assert text is not None
    return text
