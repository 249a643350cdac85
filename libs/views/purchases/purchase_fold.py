"""The fold of one partition of the purchases log: a purchase after an event, and the lists that it is in.

`purchases/purchases.lua` lists what is stored.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, assert_never

import msgspec

from libs.contracts.codec import Undecodable
from libs.contracts.purchase_events import (
    Purchase,
    PurchaseCast,
    PurchaseCountedAgain,
    PurchaseEvent,
    PurchaseRecorded,
    PurchaseRefunded,
    PurchaseRefused,
    PurchasesEvent,
    PurchaseStatus,
    PurchaseTakenBack,
    PurchaseUncounted,
    PurchaseUpdated,
    Refusal,
    Subscription,
)
from libs.tally.events import LogCreated, LogLost
from libs.views.generations.computed_fold import ComputedFold, Entries

encode: Final = msgspec.msgpack.Encoder().encode
decode: Final[Callable[[bytes], Purchase]] = msgspec.msgpack.Decoder(Purchase).decode
REFUNDABLE: Final = PurchaseStatus.REFUSED, PurchaseStatus.UNCOUNTED
"""Statuses of the purchases on the refund list."""


class PurchaseViewFold(ComputedFold[PurchasesEvent]):
    """Folds purchases into a view."""

    async def begin(self, entries: Entries[PurchasesEvent]) -> None:
        events = [event for _, event in entries if not isinstance(event, LogCreated | LogLost | Undecodable)]
        await self.load(*((f"records:{event.account}", event.key) for event in events))

    async def fold_event(self, event: Any, offset: int) -> None:
        now = self.next_moment(event.at)
        packed = await self.hget(f"records:{event.account}", event.key)
        after = purchase_after(None if packed is None else decode(packed), event, offset, now)
        if after is None:
            return
        self.clock = now
        if after.recorded is not None and after.offset == offset:
            self.write("ZADD", f"users:{after.account}:{after.recorded.user}", after.created, after.key)
        self._place(after)
        self._list(f"refused:{after.account}", after.key, after.updated if after.status in REFUNDABLE else None)
        self._list("todo", f"{after.account}\0{after.key}", offset if after.is_open else None)
        self.hset(f"records:{after.account}", after.key, encode(after))

    def _place(self, purchase: Purchase) -> None:
        """List a purchase under its choice, in one of two lists, while its votes are cast."""
        if purchase.recorded is None or purchase.recorded.vote is None:
            return
        vote, status = purchase.recorded.vote, purchase.status
        choice = "\0".join((purchase.account, vote.contest_key, vote.participant_key))
        if status is PurchaseStatus.CAST:
            self.write("SADD", "bought", choice)
        for of_list in (PurchaseStatus.CAST, PurchaseStatus.UNCOUNTED):
            self._list(f"{of_list}:{choice}", purchase.key, purchase.offset if status is of_list else None)

    def _list(self, key: str, member: str, score: int | None) -> None:
        if score is None:
            self.write("ZREM", key, member)
        else:
            self.write("ZADD", key, score, member)


def purchase_after(known: Purchase | None, event: PurchaseEvent, offset: int, now: int) -> Purchase | None:
    """Return the purchase after `event` at `now` (us), or None if nothing changes."""
    match event:
        case PurchaseRecorded():
            return _recorded(known, event, offset, now)
        case PurchaseRefunded():
            return _refunded(known, event, now)
        case PurchaseUpdated():
            return _updated(known, event, now)
    if known is None or known.recorded is None or known.recorded.vote is None:
        return None
    match event:
        case PurchaseCast():
            if known.status is PurchaseStatus.RECORDED:
                return replace(known, status=PurchaseStatus.CAST, updated=now)
        case PurchaseUncounted():
            if known.status is PurchaseStatus.CAST:
                refusal = Refusal(event.code, event.reason)
                return replace(known, status=PurchaseStatus.UNCOUNTED, updated=now, refusal=refusal)
        case PurchaseCountedAgain():
            if known.status is PurchaseStatus.UNCOUNTED:
                return replace(known, status=PurchaseStatus.CAST, updated=now, refusal=None)
        case PurchaseRefused():
            # the first of a cast and a refusal holds: during a replay a cast purchase is open again for a while
            if known.status is PurchaseStatus.RECORDED:
                refusal = Refusal(event.code, event.reason)
                return replace(known, status=PurchaseStatus.REFUSED, updated=now, refusal=refusal)
        case PurchaseTakenBack():
            if known.is_open and known.status is not PurchaseStatus.RECORDED:
                return replace(known, taken_back=True)
        case _:
            assert_never(event)
    return None


def _recorded(known: Purchase | None, event: PurchaseRecorded, offset: int, now: int) -> Purchase | None:
    """Keep the first record. After a refund the votes are never cast, so there is nothing to take back."""
    if known is not None and known.recorded is not None:
        return None
    status = PurchaseStatus.RECORDED if known is None else known.status
    return Purchase(
        account=event.account,
        key=event.key,
        status=status,
        created=now,
        updated=now,
        offset=offset,
        taken_back=known is not None,
        recorded=event,
        subscription=event.subscription,
        reported_at=now if event.reported_at is None else event.reported_at,
    )


def _updated(known: Purchase | None, event: PurchaseUpdated, now: int) -> Purchase | None:
    """Replace the subscription's state, unless the known one is of the same or a later time at the platform."""
    if known is None or known.recorded is None:
        return None
    if event.reported_at is not None and event.reported_at <= known.reported_at:
        return None
    at = max(now, known.reported_at) if event.reported_at is None else event.reported_at
    subscription = event.subscription or known.subscription
    if event.expiration is not None:
        subscription = replace(subscription or Subscription(), expiration=event.expiration)
    return replace(known, subscription=subscription, reported_at=at, updated=now)


def _refunded(known: Purchase | None, event: PurchaseRefunded, now: int) -> Purchase | None:
    if known is None:
        return Purchase(
            account=event.account, key=event.key, status=PurchaseStatus.REFUNDED, created=now, updated=now
        )
    if known.status is PurchaseStatus.REFUNDED:
        return None
    return replace(known, status=PurchaseStatus.REFUNDED, updated=now)
