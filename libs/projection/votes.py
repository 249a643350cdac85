"""The votes topic folded into ledgers, counts and gates."""

import asyncio
import time
from collections.abc import Awaitable, Iterator, Sequence

from libs.contracts.codec import vote_codec
from libs.contracts.log import LogRecord, Position
from libs.contracts.topics import Topic
from libs.tally.contest import UNLIMITED
from libs.tally.events import VoteCast, VoteRemoved, address_votes
from libs.views.addresses import ADDRESS_LIFE_S, AddressCounters, give_back
from libs.views.states import FoldInput
from libs.views.votes import APPLY_BYTES, APPLY_ITEMS, VoteViews

FRESH_S = 0.5
"""Records folded within this time of their append were counted for their address just before, by ingestion."""
IN_FLIGHT = 2
"""Slices of one partition sent before the first is answered; each names the position that it starts from."""


class VotesProjection:
    """See `Projection` for the contract."""

    def __init__(self, topic: Topic, views: VoteViews, addresses: AddressCounters | None) -> None:
        """Without `addresses`, as in a replay, their counters stay as they are."""
        self.topic = topic
        self._views = views
        self._addresses = addresses

    async def position(self, partition: int) -> Position | None:
        return await self._views.position(partition)

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> None:
        pieces = list(_pieces(records))
        for at in range(0, len(pieces), IN_FLIGHT):
            calls = []
            behind: list[FoldInput] = []
            for piece in pieces[at : at + IN_FLIGHT]:
                end = piece[-1].offset + 1
                items = _items(piece)
                calls.append(self._views.apply(partition, start, items, end))
                if piece[0].timestamp_ms < (time.time() - FRESH_S) * 1000:
                    behind += items
                start = Position(start.log_id, end)
            # started in one tick, the calls share a pipeline and arrive in order
            for error in await asyncio.gather(*calls, return_exceptions=True):
                if error is not None:
                    raise error
            await self._rebuild_addresses(behind)

    async def _rebuild_addresses(self, items: Sequence[FoldInput]) -> None:
        """Take again what votes took from their addresses' limits, where Valkey may have lost it."""
        if self._addresses is None:
            return
        oldest = (time.time() - ADDRESS_LIFE_S) * 1_000_000
        addresses, calls = self._addresses, list[Awaitable[object]]()
        for item in items:
            match item.event:
                case VoteCast(source="c-free", address=str() as address) as cast if cast.accepted_at > oldest:
                    taker = cast.voter if cast.replaces else cast.vote_id
                    expires_at_s = cast.accepted_at // 1_000_000 + ADDRESS_LIFE_S
                    calls += [
                        addresses.take(cast.contest, name, address, taker, count, UNLIMITED, expires_at_s)
                        for name, count in address_votes(cast.form, cast.choices)
                    ]
                case VoteRemoved(address=str()) as removal:
                    calls.append(give_back(addresses, removal))
        # started in one tick, they arrive in the order of the log
        await asyncio.gather(*calls)


def _pieces(records: Sequence[LogRecord]) -> Iterator[Sequence[LogRecord]]:
    """What one call folds: a ballot or a report costs by its length, a vote is short."""
    first = size = 0
    for at, record in enumerate(records):
        size += len(record.value)
        if at > first and (at - first == APPLY_ITEMS or size > APPLY_BYTES):
            yield records[first:at]
            first, size = at, len(record.value)
    if records:
        yield records[first:]


def _items(records: Sequence[LogRecord]) -> list[FoldInput]:
    events = vote_codec.decode_many([record.value for record in records])
    return [
        FoldInput(event, record.offset, record.timestamp_ms) for event, record in zip(events, records, strict=True)
    ]
