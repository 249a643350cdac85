"""A purchase as callers see it: the specification's record, and how it stands."""

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field

from libs.contracts.purchases import Purchase, PurchaseStatus
from libs.purchases.encryption import AccountCipher
from libs.purchases.unreadable import report
from libs.tally.time import timestamp
from libs.views.purchases import Unreadable

SHOWN_CHARACTERS = 4
LEAST_HIDDEN = 8


class VotesShown(BaseModel):
    """The votes that the purchase is for."""

    contest_key: str = Field(description="Key of the contest that they are cast in.")
    participant_key: str = Field(description="Key of the participant whom they are for.")
    count: int = Field(description="Cast whole or not at all.")


class SubscriptionShown(BaseModel):
    """How the subscription stood when the payment platform said so."""

    is_auto_renew: bool | None = Field(description="It goes on by itself.")
    grace_end: str | None = Field(description="Until when it holds without being paid.")
    expiration: str | None = Field(description="When it ends.")
    access: bool | None = Field(description="Whether the user has what it gives.")


class RefusalShown(BaseModel):
    """Why the votes could not be cast: the code and message of the error that a voter would have got."""

    code: str = Field(description="As in the errors of voting.", examples=["participant_limit_reached"])
    reason: str = Field(description="For a person.")


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

    key: str = Field(description="The purchase's own; it never changes.")
    created: str = Field(description="When it was recorded.")
    updated: str = Field(description="When the status changed last.")
    package_key: str | None = Field(description="Key of the package that was bought; not checked.")
    shop_key: str | None = Field(description="Key of the shop that it was bought in; not checked.")
    price: int | None = Field(description="What was paid, in the smallest unit of the currency.")
    purchase_platform: str | None = Field(description="Such as `google_play`.")
    purchase_token: str = Field(
        description="Whole for keys with purchases:write; else its first 4 characters and …, or … if it is short."
    )
    type: str = Field(description="`vote` casts votes; others are kept.")
    subscription: SubscriptionShown | None = Field(description="Of a subscription, how it stands.")
    vote: VotesShown | None = Field(description="Of the type `vote`, its votes.")
    status: PurchaseStatus = Field(
        description="`recorded`, until the votes are `cast` or `refused`; `refunded` once that was said."
    )
    refusal: RefusalShown | None = Field(description="Of a refused one, why.")


class RefundShown(BaseModel):
    """A refund of a purchase that has not come yet: nothing of it will be cast."""

    key: str = Field(description="The key that the purchase will have.")
    status: PurchaseStatus = Field(description="`refunded`.")


def show(purchase: Purchase, cipher: AccountCipher, *, whole_token: bool) -> PurchaseShown:
    """Of a purchase that has come. Raises `SecretLost`."""
    recorded = purchase.recorded
    assert recorded is not None, "only its refund has come"
    token = cipher.unseal(purchase.key, recorded.sealed).purchase_token
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


def show_all(
    purchases: Iterable[Purchase | Unreadable], cipher: AccountCipher, *, whole_token: bool
) -> tuple[list[PurchaseShown], list[Unreadable]]:
    """The purchases of a list, and those that cannot be shown: they are logged, and hide no others."""
    shown: list[PurchaseShown] = []
    unreadable: list[Unreadable] = []
    for purchase in purchases:
        if isinstance(purchase, Unreadable):
            unreadable.append(purchase)
            continue
        try:
            shown.append(show(purchase, cipher, whole_token=whole_token))
        except Exception as error:
            unreadable.append(Unreadable(purchase.account, purchase.key, str(error) or repr(error)))
    for one in unreadable:
        report(one)
    return shown, unreadable


def mask(token: str) -> str:
    """Enough to recognise it by, never enough to use it."""
    return ("" if len(token) < SHOWN_CHARACTERS + LEAST_HIDDEN else token[:SHOWN_CHARACTERS]) + "…"


def _time(microseconds: int) -> str:
    text = timestamp(microseconds)
    assert text is not None
    return text
