"""Records purchases and refunds in the log, and reads them back from the views."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from libs.contracts.actors import CURRENT
from libs.contracts.log_records import Appended
from libs.contracts.purchase_events import (
    Purchase,
    PurchaseEvent,
    PurchaseRefunded,
    PurchaseStatus,
    purchases_codec,
)
from libs.contracts.topics import Topic
from libs.purchases.encryption import AccountCiphers
from libs.purchases.requests import PurchaseForm
from libs.purchases.unreadable import PurchaseUnreadable, report
from libs.tally.errors import AppendUnknown, IdempotencyKeyReused, NotFound, ViewsUnavailable
from libs.views.purchase_views import PurchaseViews, Unreadable

FOLD_DEADLINE_S: Final = 5.0
POLL_S: Final = 0.02


class Log(Protocol):
    """Appends records to the log."""

    async def append(self, topic: str, partition: int, value: bytes, key: bytes | None = None) -> Appended:
        """Append a record. Raises `AppendUnknown` if it may be in the log, `NotAppended` if it is not."""


class Recorded(NamedTuple):
    """A recorded purchase; `replayed`: an earlier request had recorded it."""

    purchase: Purchase
    replayed: bool


@dataclass(frozen=True, slots=True)
class PurchaseService:
    """Records the purchases and refunds of all accounts. Writes are idempotent.

    Writes raise `LogUnavailable` if they were not recorded, `ViewsUnavailable` if they were, or may have been,
    recorded and the view does not show them within 5 s, and the errors of an unavailable object store.
    """

    topic: Topic
    log: Log
    views: PurchaseViews
    ciphers: AccountCiphers

    async def get(self, account: str, key: str) -> Purchase | None:
        """Return the purchase, or None if nothing is recorded. Raises `PurchaseUnreadable`, as all methods do."""
        found = await self.views.get(account, key)
        if isinstance(found, Unreadable):
            report(found)
            raise PurchaseUnreadable(key)
        return found

    async def record(self, account: str, form: PurchaseForm) -> Recorded:
        """Record a purchase. Raises `IdempotencyKeyReused` if its token was recorded with other content."""
        event = replace(form.recorded(account, await self.ciphers.of(account), _now()), actor=CURRENT.get())
        known = await self.get(account, event.key)
        replayed = known is not None and known.recorded is not None
        if known is None or known.recorded is None:
            landed = await self._append(event)
            known = await self._folded(account, event.key, lambda purchase: purchase.recorded is not None)
            replayed = landed is not None and landed.exact and landed.offset != known.offset
        assert known.recorded is not None
        if known.recorded.content != event.content:
            raise IdempotencyKeyReused("This purchase_token was recorded with other content.", key=event.key)
        return Recorded(known, replayed)

    async def refund(self, account: str, key: str) -> Purchase:
        """Record the refund of purchase `key`. Raises `NotFound` if nothing is recorded under it."""
        known = await self.get(account, key)
        if known is None:
            raise NotFound(f"There is no purchase {key}.")
        return known if known.status is PurchaseStatus.REFUNDED else await self._refund(account, key)

    async def refund_token(self, account: str, purchase_token: str) -> Purchase:
        """Record a refund, also before its purchase: then the votes are never cast, and `recorded` is None."""
        key = (await self.ciphers.of(account)).key(purchase_token)
        known = await self.get(account, key)
        refunded = known is not None and known.status is PurchaseStatus.REFUNDED
        return known if known is not None and refunded else await self._refund(account, key)

    async def _refund(self, account: str, key: str) -> Purchase:
        await self._append(PurchaseRefunded(account=account, key=key, at=_now(), actor=CURRENT.get()))
        return await self._folded(account, key, lambda purchase: purchase.status is PurchaseStatus.REFUNDED)

    async def _append(self, event: PurchaseEvent) -> Appended | None:
        """Append the event. Return its position, or None if it is unknown whether the log has the record."""
        partition = self.topic.partition_of(event.key)
        try:
            return await self.log.append(
                self.topic.name, partition, purchases_codec.encode(event), event.key.encode()
            )
        except AppendUnknown:
            return None

    async def _folded(self, account: str, key: str, shows: Callable[[Purchase], bool]) -> Purchase:
        try:
            async with asyncio.timeout(FOLD_DEADLINE_S):
                while True:
                    purchase = await self.get(account, key)
                    if purchase is not None and shows(purchase):
                        return purchase
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise ViewsUnavailable(
                "The request is, or may be, recorded, but cannot be read yet. Send it again: it is applied once.",
                retry_after_s=1,
            ) from None


def _now() -> int:
    return time.time_ns() // 1000
