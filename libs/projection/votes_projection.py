"""Projection of the votes topic into ledgers, counts and gates."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from libs.contracts.codec import plain_vote, vote_codec
from libs.contracts.log_records import Behind, LogRecord, Position
from libs.contracts.topics import Log
from libs.projection.projection_interface import NewerEvent, log_quarantined
from libs.tally.contest import UNLIMITED
from libs.tally.events import address_takers, address_votes, replaces
from libs.tally.reservations import Counter
from libs.views.generations.generations import Witness
from libs.views.valkey.watched_reads import WatchedMarks
from libs.views.votes.address_counters import ADDRESS_LIFE_S, AddressCounters, TakenBefore
from libs.views.votes.vote_views import APPLY_BYTES, APPLY_ITEMS, VoteViews
from libs.views.votes.votes_apply_items import OFFSET, POISON, REASON, UNKNOWN, Item, fold_items, reopened_by

FRESH_S = 0.5
"""Seconds after their append within which records are still counted for their address by ingestion. Older ones
are counted again if Valkey was replaced or restarted since."""
IN_FLIGHT = 2
"""Slices of one partition in flight concurrently; each states its start position."""


class VotesProjection:
    """Implements `Projection`."""

    fresh = None

    def __init__(self, topic: Log, views: VoteViews, addresses: AddressCounters | None) -> None:
        """Without `addresses`, as in a replay, address counters do not change."""
        self.topic = topic
        self.live = WatchedMarks(views.live)
        self._views = views
        self._addresses = addresses

    async def position(self, partition: int) -> Position | None:
        return await self._views.position(partition)

    async def witness(self, partition: int) -> Witness | None:
        return await self._views.generations.witness(partition)

    async def begin_again(self, partition: int, stored: Position, first_lost: int) -> bool:
        return await self._views.generations.begin_again(partition, stored, first_lost)

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> bool:
        if self._addresses is None or records[0].timestamp_ms >= (time.time() - FRESH_S) * 1000:
            newer = await self._apply(partition, start, records)
            if newer is not None:
                raise newer
            return False
        # checked before and after: a fence among the records may open the gate, and Valkey may restart meanwhile
        same_run = await self._is_same_run(partition)
        newer = await self._apply(partition, start, records)
        if not (same_run and await self._is_same_run(partition)):
            await refill(self._addresses, records)
        if newer is not None:
            raise newer
        return False

    async def clean_up(self, _: int) -> bool:
        return False

    async def _is_same_run(self, partition: int) -> bool:
        """Return whether Valkey has run without restart since the gate was opened, so that no counter was lost.

        After a loss the view is folded from its restored position, and the gate opens only after those records.
        """
        return (await self._views.state(partition)).same_run

    async def _apply(self, partition: int, start: Position, records: Sequence[LogRecord]) -> NewerEvent | None:
        """Fold the records before the first event of a newer version; return that."""
        newer: NewerEvent | None = None
        width = APPLY_ITEMS

        def known() -> Iterator[Sequence[Item]]:
            nonlocal newer
            for piece in _pieces(records, lambda: width):
                items, newer = self._items(partition, piece)
                if items:
                    yield from _split(items)
                if newer is not None:
                    return

        slices = known()
        while flight := list(islice(slices, IN_FLIGHT)):
            folds = []
            for items in flight:
                end = items[-1][OFFSET] + 1
                folds.append(partial(self._views.apply_items, partition, start, items, end))
                start = Position(start.log_id, end)
            # started in the same tick, the calls share a pipeline and arrive in order
            results = await asyncio.gather(*(fold() for fold in folds), return_exceptions=True)
            in_order = True
            for fold, result, items in zip(folds, results, flight, strict=True):
                # one that is behind may have arrived between the calls that one before it took
                outcome = await fold() if isinstance(result, Behind) and not in_order else result
                if isinstance(outcome, BaseException):
                    raise outcome
                in_order = in_order and outcome == len(items)
                if outcome < len(items):  # the next slices cost about as much
                    width = outcome
        return newer

    def _items(self, partition: int, records: Sequence[LogRecord]) -> tuple[list[Item], NewerEvent | None]:
        """Return the items before the first event of a newer version, and that."""
        items = fold_items(records)
        for at, item in enumerate(items):
            if item[0] == POISON:
                log_quarantined(self.topic, partition, item[OFFSET], item[REASON])
            elif item[0] == UNKNOWN:
                return items[:at], NewerEvent.of(self.topic, partition, item[OFFSET], item[REASON])
        return items, None


async def refill(addresses: AddressCounters, records: Sequence[LogRecord]) -> None:
    """Count votes again in their addresses' limits: one call per counter."""
    now_s = int(time.time())
    taken = defaultdict[Counter, list[TakenBefore]](list)
    for event in _events_with_address(records):
        match event.type:
            case "VoteCast":
                if event.source != "c-free" or event.accepted_at // 1_000_000 < now_s - ADDRESS_LIFE_S:
                    continue
                own, of_voter = address_takers(event.voter, event.vote_id)
                taker = of_voter if replaces(event.form, event.max_participant) else own
                for participant, count in address_votes(event.form, event.choices):
                    taken[event.contest, participant, event.address].append((taker, count))
            case "VoteRemoved":
                for participant in event.participants:
                    given = [(taker, 0) for taker in address_takers(event.voter, event.vote_id)]
                    taken[event.contest, participant, event.address] += given
    await asyncio.gather(*(addresses.refill(*counter, now_s + ADDRESS_LIFE_S) for counter in taken.items()))


def _events_with_address(records: Sequence[LogRecord]) -> Iterator[Any]:
    for value in [record.value for record in records if b'"address":"' in record.value]:
        event = plain_vote(value) or vote_codec.decode(value)
        if isinstance(getattr(event, "address", None), str):
            yield event


def _pieces(records: Sequence[LogRecord], width: Callable[[], int]) -> Iterator[Sequence[LogRecord]]:
    """Split records into slices for one call each, of `width()` records at most.

    Ballots and reports cost by length, votes are short.
    """
    first, size, most = 0, 0, width()
    for at, record in enumerate(records):
        size += len(record.value)
        if at > first and (at - first == most or size > APPLY_BYTES):
            yield records[first:at]
            first, size, most = at, len(record.value), width()
    if records:
        yield records[first:]


def _split(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Split further at reopenings: each waiting vote that they take back costs as much as a record."""
    first = count = 0
    for at, item in enumerate(items):
        cost = 1
        if (reopened := reopened_by(item)) is not None:
            cost = APPLY_ITEMS if reopened == UNLIMITED else reopened
        count += cost
        if at > first and count > APPLY_ITEMS:
            yield items[first:at]
            first, count = at, cost
    yield items[first:]
