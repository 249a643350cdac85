"""What a contest was at the end of any minute (`lua/votes/12_timeline.lua`).

A minute is that of the latest append time among the events that changed the contest in the partition: times may go
back, minutes do not. So what is behind a change in a later minute stays as it is, whoever folds it.
"""

from typing import Final, NamedTuple

from libs.tally.figures import RatingSums
from libs.views.client import Valkey
from libs.views.packing import unpack
from libs.views.states import ContestCounts, SourceCounts
from libs.views.votes import contest_counts, rating_sums, source_counts

MINUTE_MS: Final = 60_000


class Moment(NamedTuple):
    """A participant by its index (0 is the contest itself) or an external source by its name, and a minute (since
    1970)."""

    subject: int | str
    minute: int


class PastRow(NamedTuple):
    """A row at the end of a minute: its numbers behind the index (see the head of `lua/votes`), and ratings."""

    cells: tuple[int, ...]
    rating: RatingSums


def field_of(moment: Moment) -> bytes:
    """What stands before the value in the part `minutes` of a contest's views."""
    subject, minute = moment
    named = b"r" + subject.to_bytes(3, "big") if isinstance(subject, int) else f"s{subject}\0".encode()
    return named + minute.to_bytes(4, "big")


def moment_of(field: bytes) -> Moment:
    subject, minute = field[1:-4], int.from_bytes(field[-4:], "big")
    return Moment(int.from_bytes(subject, "big") if field[:1] == b"r" else subject[:-1].decode(), minute)


def past_of(value: bytes) -> PastRow | SourceCounts:
    """What the subject was at the end of that minute."""
    stored = unpack(value)
    if len(stored) > 2:
        return source_counts(stored)
    cells, rating = stored
    return PastRow(tuple(cells[1:]), rating_sums(unpack(rating)) if rating else RatingSums())


class Timeline:
    """Raises `ViewsUnavailable`. Of the live generation, or another one; `LedgerPages.fields` reads all of it."""

    def __init__(self, valkey: Valkey, namespace: str, generation: int | None = None) -> None:
        self._valkey = valkey
        self._namespace = namespace
        self._generation = "" if generation is None else generation

    async def counts_at(self, partition: int, contest: str, minute: int) -> ContestCounts:
        """What `VoteViews.counts` said at the end of that minute (since 1970); the position is that of now."""
        base = f"{self._namespace}:{{{partition}}}"
        args = contest, max(minute, -1), self._generation
        return contest_counts(unpack(await self._valkey.call("FCALL_RO", "votes_counts_at", 1, base, *args)))
