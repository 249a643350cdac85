"""Views of votes with single calls, and with folds of events, where the product makes calls for many at once."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from libs.contracts.codec import Undecodable
from libs.contracts.log_records import Position
from libs.tally.events import Event
from libs.tally.reservations import Answer, Request
from libs.views.valkey.partition_reads import raised
from libs.views.votes import vote_views
from libs.views.votes.closing_reads import read_closings
from libs.views.votes.reply_types import ClosingState
from libs.views.votes.votes_apply_items import fold_item


class FoldInput(NamedTuple):
    """One record: its event or decoding error, its offset, and the broker's append time."""

    event: Event | Undecodable
    offset: int
    time_ms: int


class VoteViews(vote_views.VoteViews):
    """The product's views, and calls of one partition."""

    async def reserve(self, partition: int, requests: Sequence[Request]) -> list[Answer]:
        """Decide `requests` in order, each after the previous ones."""
        return [reserved.answer for reserved in raised((await self.reserve_together([(partition, requests)]))[0])]

    async def confirm(self, partition: int, incarnation: int) -> bool:
        """Return whether the gate is still open under `incarnation`."""
        return raised((await self.confirm_together([(partition, incarnation)]))[0])

    async def raise_config(self, partition: int, contest: str, version: int) -> None:
        """Raise the configuration version of one contest."""
        raised((await self.raise_together([partition], {contest: version}))[0])

    async def closing(self, partition: int, contest: str) -> ClosingState:
        """Return the state of a contest's closing, without a task: `LuaLedger` never waits."""
        return (await read_closings(self.live, (partition,), contest))[partition]

    async def apply(self, partition: int, start: Position, items: Sequence[FoldInput], end: int) -> None:
        """Fold events."""
        await self.apply_items(partition, start, [fold_item(*item) for item in items], end)


async def let_be_whole(views: vote_views.VoteViews, partitions: Iterable[int]) -> None:
    """Let views hold all that was ever answered, as an opened gate says, without the fence that would open it."""
    for partition in partitions:
        fence = await views.shut(partition, 0)
        assert fence is not None
        await views._valkey.call("HSET", f"{views._base(partition)}:gate", "run", fence.run)
