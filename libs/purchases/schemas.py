"""Schemas of purchases and refunds: requests, over HTTP and from files, and responses."""

import logging
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from libs.catalogue.schemas.base import Members, Timestamp
from libs.contracts.pseudonyms import Identity
from libs.contracts.purchase_events import (
    Purchase,
    PurchasedVotes,
    PurchaseRecorded,
    PurchaseStatus,
    PurchaseUpdated,
    Subscription,
)
from libs.contracts.validation import checked
from libs.purchases.encryption import AccountCipher, Buyer
from libs.tally.errors import TallyError
from libs.tally.time_conversion import microseconds, timestamp
from libs.telemetry.metrics import PURCHASES_UNREADABLE
from libs.views.purchases.purchase_views import Unreadable

MAX_VOTES = 1_000_000
MAX_PRICE = 2**53 - 1

Name = Annotated[str, Field(min_length=1, max_length=256)]
Key = Annotated[str, Field(min_length=1, max_length=64)]
Token = Annotated[str, Field(min_length=1, max_length=4096)]


class VotesForm(Members):
    """The purchased votes."""

    contest_key: Key = Field(description="Key of the contest in which the votes are cast.")
    participant_key: Key = Field(description="Key of the participant who receives the votes.")
    count: int = Field(ge=1, le=MAX_VOTES, description="Number of votes; all of them are cast, or none.")


class SubscriptionForm(Members):
    """The state of a subscription. It replaces the state before; members left out have no value then."""

    is_auto_renew: bool | None = Field(None, description="The subscription renews automatically.")
    grace_end: Timestamp | None = Field(None, description="End of the grace period without payment.")
    expiration: Timestamp | None = Field(None, description="End of the subscription.")
    access: bool | None = Field(
        None,
        description="The user has access to the subscribed content; read as false once `grace_end`, or without "
        "one `expiration`, has passed.",
    )

    def state(self) -> Subscription:
        return Subscription(
            is_auto_renew=self.is_auto_renew,
            grace_end=_microseconds(self.grace_end),
            expiration=_microseconds(self.expiration),
            access=self.access,
        )


class PurchaseForm(Members):
    """One purchase, identified by its `purchase_token`, with the latest state of its subscription."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "user_id": "user-1",
                    "purchase_token": "GPA.3345-1",
                    "purchase_platform": "google_play",
                    "package_key": "votes-50",
                    "shop_key": "shop-1",
                    "price": 499,
                    "type": "vote",
                    "vote": {"contest_key": "c1", "participant_key": "p1", "count": 50},
                }
            ]
        }
    )
    ignored: ClassVar[frozenset[str]] = Members.ignored | {"status", "refusal"}

    user_id: Identity | None = Field(
        None, description="Id of the buyer, who is the signed-in voter of the votes; send this or anonymous_id."
    )
    anonymous_id: Identity | None = Field(
        None,
        description="Id of a buyer without a user id, who is the anonymous voter of the votes. The contest's "
        "`paid.is_anonymous` must be true; otherwise the purchase is refused and is put on the refund list.",
    )
    purchase_token: Token = Field(description="The payment platform's token of the purchase.")
    type: Name = Field(description="`vote` casts votes; other types are only stored.")
    vote: VotesForm | None = Field(None, description="Required for the type `vote`, not allowed otherwise.")
    subscription: SubscriptionForm | None = Field(
        None, description="The state of a subscription; left out or null: as reported before."
    )
    expiration: Timestamp | None = Field(
        None,
        description="End of the subscription: the same as `subscription.expiration`, if nothing else changes.",
    )
    refunded: bool | None = Field(
        None,
        description="True: the payment platform has refunded it, and its votes are taken back. This is final: "
        "false does not undo it.",
    )
    reported_at: Timestamp | None = Field(
        None,
        description="Time of the subscription's state at the payment platform. The state with the latest time "
        "holds, in whichever order they arrive. Left out: the time of receipt; then a repeated old state counts "
        "as new, unless it is the first.",
    )
    package_key: Name | None = Field(
        None,
        description="Key of the purchased package. If the account has this package and it names `vote_count`, the "
        "votes are at most so many.",
    )
    shop_key: Name | None = Field(None, description="Key of the shop that sells the package.")
    price: int | None = Field(
        None, ge=0, le=MAX_PRICE, description="Price paid, in the smallest unit of the currency."
    )
    purchase_platform: Name | None = Field(
        None, description="Payment platform, such as `google_play`.", examples=["google_play"]
    )

    @model_validator(mode="after")
    def _votes_of_votes(self) -> Self:
        if (self.type == "vote") != (self.vote is not None):
            raise PydanticCustomError("votes", "vote is required if the type is vote, and not allowed otherwise")
        if (self.user_id is None) == (self.anonymous_id is None):
            raise PydanticCustomError("buyer", "exactly one of user_id and anonymous_id must be given")
        given = self.subscription and self.subscription.expiration
        if self.subscription is not None and self.expiration is not None and self.expiration != given:
            raise PydanticCustomError("expiration", "expiration and subscription.expiration must be the same time")
        return self

    @property
    def states_subscription(self) -> bool:
        """True if the report is about the subscription's state."""
        return self.subscription is not None or self.expiration is not None

    def recorded(self, account: str, cipher: AccountCipher, at: int) -> PurchaseRecorded:
        """Build the event of the first report; `at` is in microseconds since 1970 UTC."""
        identity = self.user_id if self.user_id is not None else self.anonymous_id
        assert identity is not None, "checked by the form"
        return PurchaseRecorded(
            account=account,
            key=cipher.key(self.purchase_token),
            at=at,
            user=cipher.user(identity) if self.anonymous_id is None else cipher.anonymous_buyer(identity),
            sealed=cipher.seal(Buyer(identity, self.purchase_token)),
            kind=self.type,
            vote=None if self.vote is None else PurchasedVotes(**self.vote.model_dump()),
            package_key=self.package_key,
            shop_key=self.shop_key,
            price=self.price,
            purchase_platform=self.purchase_platform,
            subscription=self.state_after(None),
            reported_at=_microseconds(self.reported_at),
            anonymous=self.anonymous_id is not None,
        )

    def updated(self, account: str, key: str, at: int) -> PurchaseUpdated:
        """Build the event of a later report about purchase `key`."""
        return PurchaseUpdated(
            account=account,
            key=key,
            at=at,
            subscription=None if self.subscription is None else self.subscription.state(),
            expiration=_microseconds(self.expiration) if self.subscription is None else None,
            reported_at=_microseconds(self.reported_at),
        )

    def state_after(self, known: Subscription | None) -> Subscription | None:
        """Return the subscription's state after this report, if it is the latest."""
        if self.subscription is not None:
            return self.subscription.state()
        if self.expiration is None:
            return known
        return replace(known or Subscription(), expiration=_microseconds(self.expiration))


def _microseconds(time: datetime | None) -> int | None:
    return None if time is None else microseconds(time)


class RefundForm(Members):
    """The refunded purchase."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"purchase_token": "GPA.3345-1"}]})

    purchase_token: Token = Field(description="The payment platform's token of the purchase.")


def parse_purchase(body: dict[str, Any]) -> PurchaseForm:
    """Parse a purchase. Raises `ValidationFailed` with a problem for each invalid member."""
    return checked(PurchaseForm, body)


def current(subscription: Subscription | None, now: int) -> Subscription | None:
    """Return the reported state as of `now` (us): no access after `grace_end`, or without one `expiration`."""
    if subscription is None:
        return None
    ends = subscription.expiration if subscription.grace_end is None else subscription.grace_end
    return replace(subscription, access=False) if ends is not None and ends <= now else subscription


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
