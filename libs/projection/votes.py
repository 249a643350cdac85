"""The votes topic folded into ledgers, counts and gates."""

import asyncio
from collections.abc import Sequence
from itertools import islice

from libs.contracts.codec import vote_codec
from libs.contracts.log import LogRecord, Position
from libs.contracts.topics import Topic
from libs.views.votes import APPLY_ITEMS, FoldInput, VoteViews

IN_FLIGHT = 4
"""Slices of one partition sent before the first is answered; each names the position that it starts from."""


class VotesProjection:
    """See `Projection` for the contract."""

    def __init__(self, topic: Topic, views: VoteViews) -> None:
        self.topic = topic
        self._views = views

    async def position(self, partition: int) -> Position | None:
        return await self._views.position(partition)

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> None:
        slices = iter(range(0, len(records), APPLY_ITEMS))
        while first := list(islice(slices, IN_FLIGHT)):
            calls = []
            for at in first:
                piece = records[at : at + APPLY_ITEMS]
                end = piece[-1].offset + 1
                calls.append(asyncio.ensure_future(self._apply(partition, start, piece, end)))
                start = Position(start.log_id, end)
                await asyncio.sleep(0)  # lets the slice depart while the next one is decoded
            answers = await asyncio.gather(*calls, return_exceptions=True)
            for error in answers:
                if error is not None:
                    raise error

    async def _apply(self, partition: int, start: Position, records: Sequence[LogRecord], end: int) -> None:
        events = vote_codec.decode_many([record.value for record in records])
        items = [
            FoldInput(event, record.offset, record.timestamp_ms)
            for event, record in zip(events, records, strict=True)
        ]
        await self._views.apply(partition, start, items, end)
