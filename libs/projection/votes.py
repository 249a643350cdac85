"""The votes topic folded into ledgers, counts and gates."""

import asyncio
from collections.abc import Sequence

from libs.contracts.codec import vote_codec
from libs.contracts.log import LogRecord, Position
from libs.contracts.topics import Topic
from libs.views.votes import APPLY_ITEMS, FoldInput, VoteViews

IN_FLIGHT = 2
"""Slices of one partition sent before the first is answered; each names the position that it starts from."""


class VotesProjection:
    """See `Projection` for the contract."""

    def __init__(self, topic: Topic, views: VoteViews) -> None:
        self.topic = topic
        self._views = views

    async def position(self, partition: int) -> Position | None:
        return await self._views.position(partition)

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> None:
        step = APPLY_ITEMS * IN_FLIGHT
        for at in range(0, len(records), step):
            calls = []
            for piece_at in range(at, min(at + step, len(records)), APPLY_ITEMS):
                piece = records[piece_at : piece_at + APPLY_ITEMS]
                end = piece[-1].offset + 1
                calls.append(self._views.apply(partition, start, _items(piece), end))
                start = Position(start.log_id, end)
            # started in one tick, the calls share a pipeline and arrive in order
            for error in await asyncio.gather(*calls, return_exceptions=True):
                if error is not None:
                    raise error


def _items(records: Sequence[LogRecord]) -> list[FoldInput]:
    events = vote_codec.decode_many([record.value for record in records])
    return [
        FoldInput(event, record.offset, record.timestamp_ms)
        for event, record in zip(events, records, strict=True)
    ]
