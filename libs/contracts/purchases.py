"""The records of the purchases log, and what the view folded from it gives back.

Of one purchase the first PurchaseRecorded in log order holds. PurchaseRefused is final: once it is in the log the
purchase's votes do not count, or are about to be taken back. Who bought, and the token, are in the log only
encrypted. Times are microseconds since 1970 UTC. A class never changes its meaning: a new shape is a new class
with a type name of its own.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, StringConstraints

from libs.contracts.catalogue import Account
from libs.contracts.codec import Codec
from libs.tally.events import Actor, LogCreated

PurchaseKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{22}$")]
"""HMAC of the purchase token under the account's secret: the same token is the same purchase."""
Moment = Annotated[int, Field(ge=0, lt=2**53)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchasedVotes:
    """What a purchase of votes is for."""

    contest_key: str
    participant_key: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """As the payment platform tells it."""

    is_auto_renew: bool | None = None
    grace_end: int | None = None
    expiration: int | None = None
    access: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfPurchase:
    """What every event of a purchase carries; `at` is when its writer made it."""

    account: Account
    key: PurchaseKey
    at: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseRecorded(OfPurchase):
    """A payment platform sold something. With `vote` its votes are to be cast, exactly once.

    `content` is a keyed hash of what was sent, `user` the buyer's pseudonym within the account, `sealed` user id
    and purchase token under the account's secret. `kind` is the purchase's `type` in the API.
    """

    content: str
    user: str
    sealed: str
    kind: str
    vote: PurchasedVotes | None
    package_key: str | None = None
    shop_key: str | None = None
    price: int | None = None
    purchase_platform: str | None = None
    subscription: Subscription | None = None
    actor: Actor | None = None
    type: Literal["PurchaseRecorded"] = "PurchaseRecorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseRefunded(OfPurchase):
    """The buyer got the money back; it may come before the purchase does."""

    actor: Actor | None = None
    type: Literal["PurchaseRefunded"] = "PurchaseRefunded"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseCast(OfPurchase):
    """Its votes were accepted at `accepted_at`."""

    accepted_at: int
    type: Literal["PurchaseCast"] = "PurchaseCast"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseRefused(OfPurchase):
    """Its votes cannot be cast: the purchase is to be refunded. `code` is that of the refusing error."""

    code: str
    reason: str
    type: Literal["PurchaseRefused"] = "PurchaseRefused"


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseTakenBack(OfPurchase):
    """Of a refunded or refused purchase: its vote id is used up, and what counted of it is taken back."""

    type: Literal["PurchaseTakenBack"] = "PurchaseTakenBack"


PurchaseEvent = PurchaseRecorded | PurchaseRefunded | PurchaseCast | PurchaseRefused | PurchaseTakenBack
PurchasesEvent = LogCreated | PurchaseEvent

purchases_codec: Codec[PurchasesEvent] = Codec(PurchasesEvent)


class PurchaseStatus(StrEnum):
    """Where a purchase stands. One without votes stays `recorded` until it is refunded."""

    RECORDED = "recorded"
    CAST = "cast"
    REFUSED = "refused"
    REFUNDED = "refunded"


class Refusal(NamedTuple):
    """Why the votes could not be cast."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    """One purchase as the view holds it.

    `recorded` is None where only its refund has come so far; `offset` is where it lies in the log. `updated` is
    when `status` changed last. `taken_back`: its vote id is used up, or was never to be used.
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

    @property
    def is_open(self) -> bool:
        """Whether its votes are still to be cast or taken back."""
        if self.recorded is None or self.recorded.vote is None or self.status is PurchaseStatus.CAST:
            return False
        return self.status is PurchaseStatus.RECORDED or not self.taken_back


class Place(NamedTuple):
    """A purchase's place in a list, newest first: a moment and the key."""

    at: int
    key: str
