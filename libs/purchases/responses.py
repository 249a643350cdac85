"""Response schemas of purchases: the specification's record, with status and refusal, or unreadable."""

import logging
import time
from collections.abc import Iterable
from dataclasses import asdict

from pydantic import BaseModel, ConfigDict, Field

from libs.contracts.purchase_events import Purchase, PurchaseStatus
from libs.purchases.encryption import AccountCipher
from libs.purchases.requests import VotesForm, current
from libs.tally.errors import TallyError
from libs.tally.time_conversion import timestamp
from libs.telemetry.metrics import PURCHASES_UNREADABLE
from libs.views.purchases.purchase_views import Unreadable

SHOWN_CHARACTERS = 4
LEAST_HIDDEN = 8


class VotesShown(VotesForm):
    """The purchased votes."""


class SubscriptionShown(BaseModel):
    """The latest state of the subscription by the payment platform's time."""

    is_auto_renew: bool | None = Field(description="The subscription renews automatically.")
    grace_end: str | None = Field(description="End of the grace period without payment.")
    expiration: str | None = Field(description="End of the subscription.")
    access: bool | None = Field(
        description="As reported; false once `grace_end`, or without one `expiration`, has passed."
    )


class RefusalShown(BaseModel):
    """The error for which the votes could not be cast, or do not count any more: as for a voter."""

    code: str = Field(description="Code of the error.", examples=["participant_limit_reached"])
    reason: str = Field(description="Message of the error.")


class PurchaseShown(BaseModel):
    """One purchase. The members after `vote` are additions to the specification's record."""

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
                    "refunded": False,
                    "reported_at": "2026-05-01T18:00:00.000000Z",
                    "status": "cast",
                    "refusal": None,
                }
            ]
        }
    )

    key: str = Field(description="Key of the purchase; it never changes.")
    created: str = Field(description="Time when the purchase was recorded.")
    updated: str = Field(description="Time of the last change of the status or the subscription.")
    package_key: str | None = Field(description="Key of the purchased package.")
    shop_key: str | None = Field(description="Key of the shop.")
    price: int | None = Field(description="Price paid, in the smallest unit of the currency.")
    purchase_platform: str | None = Field(description="Payment platform, such as `google_play`.")
    purchase_token: str = Field(
        description="Complete for keys with purchases:write; otherwise the first 4 characters and …, or only …."
    )
    type: str = Field(description="`vote` casts votes; other types are only stored.")
    subscription: SubscriptionShown | None = Field(description="The state of a subscription.")
    vote: VotesShown | None = Field(description="The purchased votes, for the type `vote`.")
    refunded: bool = Field(description="The purchase was refunded; its votes do not count.")
    reported_at: str = Field(description="Time of the subscription's state at the payment platform.")
    status: PurchaseStatus = Field(
        description="`recorded` until the votes are `cast` or `refused`; `uncounted` while cast votes do not "
        "count, as their participant was rejected or deleted, or their contest deleted; `refunded` after a "
        "refund. `refused` and `uncounted` purchases are on the refund list."
    )
    refusal: RefusalShown | None = Field(description="The error of a refused or uncounted purchase.")


class RefundShown(BaseModel):
    """A refund that arrived before its purchase, whose votes will not be cast."""

    key: str = Field(description="Key of the purchase.")
    status: PurchaseStatus = Field(description="`refunded`.")


def show(purchase: Purchase, cipher: AccountCipher, *, whole_token: bool) -> PurchaseShown:
    """Build the response for a recorded purchase. Raises `SecretLost`."""
    recorded = purchase.recorded
    assert recorded is not None, "only the refund is recorded"
    token = cipher.unseal(purchase.key, recorded.sealed).purchase_token
    subscription, vote = current(purchase.subscription, time.time_ns() // 1000), recorded.vote
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
        vote=None if vote is None else VotesShown(**asdict(vote)),
        refunded=purchase.status is PurchaseStatus.REFUNDED,
        reported_at=_time(purchase.reported_at),
        status=purchase.status,
        refusal=None if purchase.refusal is None else RefusalShown(**purchase.refusal._asdict()),
    )


def show_all(
    purchases: Iterable[Purchase | Unreadable], cipher: AccountCipher, *, whole_token: bool
) -> tuple[list[PurchaseShown], list[Unreadable]]:
    """Build the responses for a list; unreadable purchases are logged and returned separately."""
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
    for purchase in unreadable:
        report(purchase)
    return shown, unreadable


def mask(token: str) -> str:
    """Hide a token except for its first 4 characters; hide a token of less than 12 characters completely."""
    return ("" if len(token) < SHOWN_CHARACTERS + LEAST_HIDDEN else token[:SHOWN_CHARACTERS]) + "…"


def _time(microseconds: int) -> str:
    text = timestamp(microseconds)
    assert text is not None
    return text


logger = logging.getLogger(__name__)


class PurchaseUnreadable(TallyError):
    """The purchase cannot be read and was not changed; a retry succeeds only after an operator's repair."""

    code = "purchase_unreadable"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Purchase {key} is recorded but cannot be read; it was not changed. Retry after the service's "
            "operator has repaired it.",
            key=key,
        )


def report(purchase: Unreadable) -> None:
    """Log the reason and increment the metric of unreadable purchases."""
    PURCHASES_UNREADABLE.inc()
    logger.warning("purchase %s of %s cannot be read: %s", purchase.key, purchase.account, purchase.reason)
