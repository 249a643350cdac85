"""Events of the purchases log, and the types that its view returns.

The first PurchaseRecorded of a purchase in log order holds. PurchaseRefused is final: once it is in the log, the
purchase's votes do not count, or will be taken back. The log holds the buyer and the token only encrypted. Times
are microseconds since 1970 UTC. A class never changes its meaning: a new shape is a new class with its own type
name.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field, StringConstraints

from libs.contracts.catalogue_events import Account
from libs.contracts.codec import Codec
from libs.tally.events import Actor, LogCreated, LogLost

PurchaseKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{22}$")]
"""HMAC of the purchase token under the account's secret: equal tokens identify the same purchase."""
Moment = Annotated[int, Field(ge=0, lt=2**53)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchasedVotes:
    """The votes of a purchase."""

    contest_key: str
    participant_key: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """State of a subscription, as reported by the payment platform."""

    is_auto_renew: bool | None = None
    grace_end: int | None = None
    expiration: int | None = None
    access: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfPurchase:
    """Members of every purchase event; `at` is the time at its writer."""

    account: Account
    key: PurchaseKey
    at: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseRecorded(OfPurchase):
    """A purchase on a payment platform. The votes in `vote` are cast exactly once.

    `user` is the buyer's pseudonym within the account, `sealed` the buyer's id and the purchase token encrypted
    under the account's secret; an `anonymous` buyer has no user id. `kind` is the purchase's `type` in the API.
    `reported_at` is the payment platform's time of `subscription`; None: when the purchase was recorded.
    """

    user: str
    sealed: str
    kind: str
    vote: PurchasedVotes | None
    package_key: str | None = None
    shop_key: str | None = None
    price: int | None = None
    purchase_platform: str | None = None
    subscription: Subscription | None = None
    reported_at: Moment | None = None
    anonymous: bool = False
    actor: Actor | None = None
    type: Literal["PurchaseRecorded"] = "PurchaseRecorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseUpdated(OfPurchase):
    """A state of a recorded purchase's subscription; the purchased votes never change.

    It holds if `reported_at`, the payment platform's time, is later than that of the state before, or None: then
    its place in the log decides. `subscription` replaces the whole state; `expiration` alone replaces that member.
    """

    subscription: Subscription | None = None
    expiration: int | None = None
    reported_at: Moment | None = None
    actor: Actor | None = None
    type: Literal["PurchaseUpdated"] = "PurchaseUpdated"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseRefunded(OfPurchase):
    """A refund; it may precede its purchase."""

    actor: Actor | None = None
    type: Literal["PurchaseRefunded"] = "PurchaseRefunded"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseCast(OfPurchase):
    """The purchase's votes were accepted at `accepted_at`."""

    accepted_at: int
    type: Literal["PurchaseCast"] = "PurchaseCast"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseUncounted(OfPurchase):
    """The purchase's cast votes stopped counting, and it must be refunded: `code` and `reason` say why."""

    code: str
    reason: str
    type: Literal["PurchaseUncounted"] = "PurchaseUncounted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseCountedAgain(OfPurchase):
    """The purchase's votes count again, as their participant was approved again."""

    type: Literal["PurchaseCountedAgain"] = "PurchaseCountedAgain"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseRefused(OfPurchase):
    """The purchase's votes cannot be cast and it must be refunded. `code` and `reason` are those of the error."""

    code: str
    reason: str
    type: Literal["PurchaseRefused"] = "PurchaseRefused"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseTakenBack(OfPurchase):
    """The vote id of a refunded or refused purchase is used up, and its counted votes are taken back."""

    type: Literal["PurchaseTakenBack"] = "PurchaseTakenBack"


PurchaseEvent = (
    PurchaseRecorded
    | PurchaseUpdated
    | PurchaseRefunded
    | PurchaseCast
    | PurchaseUncounted
    | PurchaseCountedAgain
    | PurchaseRefused
    | PurchaseTakenBack
)
PurchasesEvent = LogCreated | LogLost | PurchaseEvent

purchases_codec: Codec[PurchasesEvent] = Codec(PurchasesEvent)


class PurchaseStatus(StrEnum):
    """State of a purchase. A purchase without votes stays `recorded` until it is refunded."""

    RECORDED = "recorded"
    CAST = "cast"
    UNCOUNTED = "uncounted"
    REFUSED = "refused"
    REFUNDED = "refunded"


class Refusal(NamedTuple):
    """The error for which the votes could not be cast, or do not count any more."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    """One purchase of the view.

    `recorded` is None if only the refund is in the log; `offset` is the purchase's offset. `updated` is the time
    of the last change of `status` or `subscription`. `subscription` is the latest state by `reported_at`.
    `taken_back`: the vote id is used up, or will never be used.
    """

    account: str
    key: str
    status: PurchaseStatus
    created: int
    updated: int
    offset: int = -1
    refusal: Refusal | None = None
    taken_back: bool = False
    recorded: PurchaseRecorded | None = None
    subscription: Subscription | None = None
    reported_at: int = 0

    @property
    def is_open(self) -> bool:
        """Return whether the votes have yet to be cast or taken back."""
        if self.recorded is None or self.recorded.vote is None or self.status in CAST:
            return False
        return self.status is PurchaseStatus.RECORDED or not self.taken_back


CAST: Final = frozenset({PurchaseStatus.CAST, PurchaseStatus.UNCOUNTED})
"""Statuses of purchases whose votes are in the votes log."""


class PurchasePlace(NamedTuple):
    """A purchase's place in a list, newest first: time (us) and key."""

    at: int
    key: str
