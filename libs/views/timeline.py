"""What a contest was at the end of any minute (`lua/votes/12_timeline.lua`).

A minute is that of the latest append time among the events that changed the contest in the partition: times may go
back, minutes do not. So what is behind a change in a later minute stays as it is, whoever folds it.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from libs.contracts.log import Position
from libs.tally.errors import ViewsUnavailable
from libs.tally.figures import RatingSums
from libs.views.client import Valkey
from libs.views.packing import unpack
from libs.views.states import ContestCounts, SourceCounts
from libs.views.votes import contest_counts, rating_sums, source_counts

MINUTE_MS: Final = 60_000
SUBJECTS: Final = 100
"""Asked for by one call."""
ATTEMPTS: Final = 3
"""Times that a contest is read again where its view was exchanged for another meanwhile."""


class Moment(NamedTuple):
    """A participant by its index (0 is the contest itself) or an external source by its name, and a minute (since
    1970)."""

    subject: int | str
    minute: int


class PastRow(NamedTuple):
    """A row at the end of a minute: its numbers behind the index (see the head of `lua/votes`), and ratings."""

    cells: tuple[int, ...]
    rating: RatingSums


class Change(NamedTuple):
    """What a participant ("" for the contest itself) or an external source was at the end of a minute in which it
    changed."""

    name: str
    minute: int
    value: "PastRow | SourceCounts"


class ChangesPage(NamedTuple):
    """Some changes, in order of time for each of those asked for, as of `position`."""

    position: Position
    changes: list[Change]


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

    async def counts_at(
        self, partition: int, contest: str, minute: int, participants: Iterable[str], sources: Iterable[str]
    ) -> ContestCounts:
        """What `VoteViews.counts` said of the contest, these participants and these external sources at the end of
        that minute (since 1970), in which the contest must not change any more. The position is that of now.

        Read in short calls, one after the other: what such a minute was never changes. Raises `ViewsUnavailable`
        also where the views are exchanged meanwhile.
        """
        rows = ["r", *(f"r{name}" for name in participants)]
        wanted = [rows[at : at + SUBJECTS] for at in range(0, len(rows), SUBJECTS)]
        wanted += [[f"s{name}"] for name in sources]
        base = f"{self._namespace}:{{{partition}}}"
        args = contest, max(minute, -1), self._generation
        for _ in range(ATTEMPTS):
            parts = []
            for some in wanted:
                call = self._valkey.call("FCALL_RO", "votes_counts_at", 1, base, *args, *some)
                parts.append(contest_counts(unpack(await call)))
            if len({(part.position.log_id, part.swaps) for part in parts}) == 1:
                return _joined(parts)
        raise ViewsUnavailable("The counts were replaced while they were read; retry shortly.", retry_after_s=1)

    async def first_minute(self, partition: int, contest: str) -> int | None:
        """The first minute in which the contest changed; None while it has not."""
        base = f"{self._namespace}:{{{partition}}}"
        first: int = await self._valkey.call("FCALL_RO", "votes_first_minute", 1, base, contest, self._generation)
        return None if first < 0 else first

    async def changes(
        self, partition: int, contest: str, minutes: range, rows: Sequence[str], sources: Sequence[str]
    ) -> AsyncIterator[ChangesPage]:
        """All changes of these participants ("": the contest) and external sources in `minutes`; of those within
        one step, which begins at a multiple of itself, at least the last.

        A page is one call of 2 ms at most.
        """
        base = f"{self._namespace}:{{{partition}}}"
        args = contest, self._generation, minutes.start, minutes.stop, minutes.step
        wanted = [f"r{name}" for name in rows] + [f"s{name}" for name in sources]
        at, since = 0, minutes.start
        while at < len(wanted):
            asked = wanted[at : at + SUBJECTS]
            reply = await self._valkey.call("FCALL_RO", "votes_changes", 1, base, *args, since, *asked)
            log, offset, following, *lists = unpack(reply)
            changes = [
                Change(name[1:], minute, past_of(value))
                for name, flat in zip(asked, lists, strict=False)
                for minute, value in zip(flat[::2], flat[1::2], strict=True)
            ]
            yield ChangesPage(Position(log.decode(), offset), changes)
            at += len(lists) if following < 0 else len(lists) - 1
            since = minutes.start if following < 0 else following


def _joined(parts: Sequence[ContestCounts]) -> ContestCounts:
    """Of some participants and sources each, at the earliest of their positions; the first has the contest."""
    return replace(
        parts[0],
        position=min((part.position for part in parts), key=lambda position: position.offset),
        figures=dict(chain.from_iterable(part.figures.items() for part in parts)),
        ratings=dict(chain.from_iterable(part.ratings.items() for part in parts)),
        sources=dict(chain.from_iterable(part.sources.items() for part in parts)),
    )
