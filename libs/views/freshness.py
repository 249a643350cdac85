"""Fresh views: reads of one that may be older than what was answered before fail, and a projector makes it fresh.

A Valkey that was emptied, or came back older, answers all the same: records as absent, or as they once were. It is
fresh once its server, in this run, has folded the log as far as the log went then (`lua/shared/reads.lua`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from libs.contracts.log_records import Position
from libs.tally.errors import ViewsUnavailable
from libs.views.client import Valkey
from libs.views.generations import Prefix

RECOVERING = "Temporarily unavailable while the service recovers; retry shortly."


class Freshness(NamedTuple):
    """`run` names the server's run, under which the live view is fresh or not; `position` is the view's."""

    run: str
    is_fresh: bool
    position: Position | None


class FreshReader:
    """The only way to what the live views of one topic hold: every read passes the same check.

    An answer is refused where the view is not fresh, or stands before an earlier answer's position. So what was
    read, and what was acknowledged to anybody, is in every later answer. Taken for granted: the keys of a
    partition are lost together, and nobody is connected to a primary that was cut off while its successor writes.
    """

    def __init__(self, valkey: Valkey, prefix: Prefix, base: Callable[[int], str]) -> None:
        """`base` gives the key that all keys of a partition begin with."""
        self._valkey = valkey
        self._prefix = prefix
        self._base = base
        self._seen: dict[int, Position] = {}

    async def read(self, function: str, partition: int, *args: Any) -> Any:
        """The reply of one function. Raises `ViewsUnavailable`, also when the view is not fresh."""
        return (await self.read_at(function, partition, *args))[1]

    async def read_at(self, function: str, partition: int, *args: Any) -> tuple[Position, Any]:
        """The same, with the position that it holds at."""
        seen = self._seen.get(partition)  # answers may overtake one another: an earlier question may see less
        name = f"{self._prefix}_{function}"
        is_fresh, log, offset, *reply = await self._valkey.call("FCALL_RO", name, 1, self._base(partition), *args)
        position = Position(log.decode(), int(offset))
        if not is_fresh or is_behind(position, seen):
            raise ViewsUnavailable(RECOVERING, retry_after_s=1)
        if not is_behind(position, self._seen.get(partition)):
            self._seen[partition] = position
        return position, reply[0]

    async def freshness(self, partition: int) -> Freshness:
        run, is_fresh, log, offset = await self._valkey.call(
            "FCALL_RO", f"{self._prefix}_freshness", 1, self._base(partition)
        )
        position = Position(log.decode(), int(offset)) if log else None
        return Freshness(run.decode(), is_fresh == 1, position)

    async def declare(self, partition: int, run: str, end: Position) -> bool:
        """Make the view fresh if it has come to `end`, which the log was asked for after `run` was read.

        False where it has not, or where the server runs anew.
        """
        name = f"{self._prefix}_declare_fresh"
        return bool(await self._valkey.call("FCALL", name, 1, self._base(partition), run, *end) == 1)


def is_behind(position: Position | None, seen: Position | None) -> bool:
    """Whether a view that stands at `position` of a log has gone back since it was `seen`."""
    if seen is None:
        return False
    return position is None or (position.log_id == seen.log_id and position.offset < seen.offset)
