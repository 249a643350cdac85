"""Purchases and refunds on their way into the log, and what has become of them."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from libs.contracts.actors import CURRENT
from libs.contracts.log_records import Appended
from libs.contracts.purchases import (
    Purchase,
    PurchaseEvent,
    PurchaseRefunded,
    PurchaseStatus,
    purchases_codec,
)
from libs.contracts.topics import Topic
from libs.kafka.errors import AppendUnknown
from libs.purchases.encryption import AccountCiphers
from libs.purchases.requests import PurchaseForm
from libs.purchases.unreadable import PurchaseUnreadable, report
from libs.tally.errors import IdempotencyKeyReused, NotFound, ViewsUnavailable
from libs.views.purchases import PurchaseViews, Unreadable

FOLD_DEADLINE_S: Final = 5.0
POLL_S: Final = 0.02


class Log(Protocol):
    """What is needed of the log."""

    async def append(self, topic: str, partition: int, value: bytes, key: bytes | None = None) -> Appended:
        """Raises `AppendUnknown` when the record may be in the log all the same, `NotAppended` when it is not."""


class Recorded(NamedTuple):
    """`replayed`: it had been recorded before."""

    purchase: Purchase
    replayed: bool


@dataclass(frozen=True, slots=True)
class PurchaseService:
    """Records for all accounts. Every write may be sent again: it takes effect once.

    Writes raise `LogUnavailable` when they certainly were not recorded, `ViewsUnavailable` when they were, or may
    have been, and the fold has not come to them in time; and what an object store raises that is away.
    """

    topic: Topic
    log: Log
    views: PurchaseViews
    ciphers: AccountCiphers

    async def get(self, account: str, key: str) -> Purchase | None:
        """None where nothing of it has come. Raises `PurchaseUnreadable`, as all others do."""
        found = await self.views.get(account, key)
        if isinstance(found, Unreadable):
            report(found)
            raise PurchaseUnreadable(key)
        return found

    async def record(self, account: str, form: PurchaseForm) -> Recorded:
        """Raises `IdempotencyKeyReused` where the token was recorded with other content."""
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
        """Raises `NotFound` for a key of which nothing has come yet."""
        known = await self.get(account, key)
        if known is None:
            raise NotFound(f"There is no purchase {key}.")
        return known if known.status is PurchaseStatus.REFUNDED else await self._refund(account, key)

    async def refund_token(self, account: str, purchase_token: str) -> Purchase:
        """Also before the purchase: then nothing of it will be cast, and `recorded` is None."""
        key = (await self.ciphers.of(account)).key(purchase_token)
        known = await self.get(account, key)
        refunded = known is not None and known.status is PurchaseStatus.REFUNDED
        return known if known is not None and refunded else await self._refund(account, key)

    async def _refund(self, account: str, key: str) -> Purchase:
        await self._append(PurchaseRefunded(account=account, key=key, at=_now(), actor=CURRENT.get()))
        return await self._folded(account, key, lambda purchase: purchase.status is PurchaseStatus.REFUNDED)

    async def _append(self, event: PurchaseEvent) -> Appended | None:
        """Where it landed; None when only the fold can tell whether it did."""
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
                "It is, or may be, recorded, but cannot be read yet. Send it again: it takes effect once.",
                retry_after_s=1,
            ) from None


def _now() -> int:
    return time.time_ns() // 1000
