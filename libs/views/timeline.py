"""What a contest was at the end of any minute (`lua/votes/12_timeline.lua`).

A minute is that of the latest append time among the events that changed the contest in the partition: times may go
back, minutes do not. So what is behind a change in a later minute stays as it is, whoever folds it.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from libs.contracts.log_records import Position
from libs.tally.counts import RatingSums
from libs.tally.errors import ViewsUnavailable
from libs.views.client import Valkey
from libs.views.replies import ContestCounts, SourceCounts, SourceFigures, SourceRow
from libs.views.serialization import unpack
from libs.views.votes import contest_counts, joined, rating_sums, source_figures, source_row

MINUTE_MS: Final = 60_000
SUBJECTS: Final = 100
"""Asked for by one call."""
ATTEMPTS: Final = 3
"""Times that a contest is read again where its view was exchanged for another meanwhile."""


class Moment(NamedTuple):
    """A subject and a minute (since 1970).

    The subject is a participant by its index (0 is the contest itself), an external source by its name, or one of
    that source's ids by both.
    """

    subject: int | str | tuple[str, str]
    minute: int


class PastRow(NamedTuple):
    """A row at the end of a minute: its numbers behind the index (see the head of `lua/votes`), and ratings."""

    cells: tuple[int, ...]
    rating: RatingSums


class Change(NamedTuple):
    """A subject at the end of a minute in which it changed.

    That is "" and a participant ("" for the contest itself), or an external source and one of its ids.
    """

    subject: tuple[str, str]
    minute: int
    value: PastRow | SourceFigures


class ChangesPage(NamedTuple):
    """Some changes, in order of time for each of those asked for, as of `position`."""

    position: Position
    changes: list[Change]


def field_of(moment: Moment) -> bytes:
    """What stands before the value in the part `minutes` of a contest's views."""
    subject, minute = moment
    match subject:
        case int():
            named = b"r" + subject.to_bytes(3, "big")
        case str():
            named = f"s{subject}\0".encode()
        case source, mapped_id:
            name = f"{source}\0{mapped_id}".encode()
            named = b"f" + len(name).to_bytes(4, "big") + name
    return named + minute.to_bytes(4, "big")


def moment_of(field: bytes) -> Moment:
    subject, minute = field[1:-4], int.from_bytes(field[-4:], "big")
    match field[:1]:
        case b"r":
            return Moment(int.from_bytes(subject, "big"), minute)
        case b"s":
            return Moment(subject[:-1].decode(), minute)
    source, _, mapped_id = subject[4:].decode().partition("\0")
    return Moment((source, mapped_id), minute)


def past_of(value: bytes) -> PastRow | SourceRow | SourceFigures:
    """What was kept of the subject at the end of that minute."""
    stored = unpack(value)
    match len(stored):
        case 2:
            return _past_row(stored)
        case 6:
            return source_row(stored)
    return source_figures(stored)


def _past_row(stored: Sequence[Any]) -> PastRow:
    cells, rating = stored
    return PastRow(tuple(cells[1:]), rating_sums(unpack(rating)) if rating else RatingSums())


class Timeline:
    """Raises `ViewsUnavailable`. Of the live generation, or another one; `LedgerPages.fields` reads all of it."""

    def __init__(self, valkey: Valkey, namespace: str, generation: int | None = None) -> None:
        self._valkey = valkey
        self._namespace = namespace
        self._generation = "" if generation is None else generation

    async def counts_at(
        self,
        partition: int,
        contest: str,
        minute: int,
        participants: Iterable[str],
        sources: Mapping[str, SourceCounts],
    ) -> ContestCounts:
        """Counts of these participants and external sources at the end of a minute.

        Minutes are counted since 1970; the contest must not change in it any more. The position is that of now.

        Read in short calls, one after the other: what such a minute was never changes. Raises `ViewsUnavailable`
        also where the views are exchanged meanwhile.
        """
        named = ["r", *(f"r{name}" for name in participants), *(f"s{name}" for name in sources)]
        named += [f"f{source}\0{mapped_id}" for source, mapped_id in ids_of(sources)]
        base = f"{self._namespace}:{{{partition}}}"
        args = contest, max(minute, -1), self._generation
        for _ in range(ATTEMPTS):
            parts = []
            for at in range(0, len(named), SUBJECTS):
                some = named[at : at + SUBJECTS]
                call = self._valkey.call("FCALL_RO", "votes_counts_at", 1, base, *args, *some)
                parts.append(unpack(await call))
            if len({(part[0], part[3]) for part in parts}) == 1:
                offset = min(part[1] for part in parts)
                return contest_counts(joined(parts, [parts[0][0], offset, *parts[0][2:]]))
        raise ViewsUnavailable("The counts were replaced while they were read; retry shortly.", retry_after_s=1)

    async def first_minute(self, partition: int, contest: str) -> int | None:
        """The first minute in which the contest changed; None while it has not."""
        base = f"{self._namespace}:{{{partition}}}"
        first: int = await self._valkey.call("FCALL_RO", "votes_first_minute", 1, base, contest, self._generation)
        return None if first < 0 else first

    async def changes(
        self,
        partition: int,
        contest: str,
        minutes: range,
        rows: Sequence[str],
        sources: Mapping[str, SourceCounts],
    ) -> AsyncIterator[ChangesPage]:
        """Reads all changes of these participants ("": the contest) and of the ids of these external sources in
        `minutes`; of those within one step, which begins at a multiple of itself, at least the last.

        A page is one call of 2 ms at most.
        """
        base = f"{self._namespace}:{{{partition}}}"
        args = contest, self._generation, minutes.start, minutes.stop, minutes.step
        wanted = [("", name) for name in rows] + list(ids_of(sources))
        at, since = 0, minutes.start
        while at < len(wanted):
            asked = wanted[at : at + SUBJECTS]
            named = [f"f{source}\0{name}" if source else f"r{name}" for source, name in asked]
            reply = await self._valkey.call("FCALL_RO", "votes_changes", 1, base, *args, since, *named)
            log, offset, following, *lists = unpack(reply)
            changes = [
                Change(subject, minute, source_figures(unpack(value)) if subject[0] else _past_row(unpack(value)))
                for subject, flat in zip(asked, lists, strict=False)
                for minute, value in zip(flat[::2], flat[1::2], strict=True)
            ]
            yield ChangesPage(Position(log.decode(), offset), changes)
            at += len(lists) if following < 0 else len(lists) - 1
            since = minutes.start if following < 0 else following


def ids_of(sources: Mapping[str, SourceCounts]) -> Iterator[tuple[str, str]]:
    """Each external source with each of the ids that it reported."""
    return ((name, mapped_id) for name, source in sources.items() for mapped_id in source.figures)
