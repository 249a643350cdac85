"""Historical counts of a contest at the end of any minute (`votes/17_timeline.lua`).

An event's minute is the maximum append time of the events that changed the contest in the partition so far: append
times may go back, minutes do not. So all before a change in a later minute is final, and the same in every fold.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from libs.contracts.log_records import Position
from libs.contracts.votes_log import VotesLog, votes_log
from libs.tally.counts import RatingSums
from libs.tally.errors import ViewsUnavailable
from libs.views.valkey.client import Valkey
from libs.views.valkey.function_libraries import read_function, unpack
from libs.views.valkey.hash_tags import base_in
from libs.views.votes.counts_replies import contest_counts, joined, rating_sums, source_figures, source_row
from libs.views.votes.reply_types import ContestCounts, SourceCounts, SourceFigures, SourceRow

MINUTE_MS: Final = 60_000
SUBJECTS: Final = 100
"""Maximum number of subjects per call."""
ATTEMPTS: Final = 3
"""Attempts to read a contest whose view is swapped during the read."""


class Moment(NamedTuple):
    """A subject and a minute (since 1970).

    The subject is a participant by its index (0 is the contest itself), an external source by its name, or one of
    that source's ids by both.
    """

    subject: int | str | tuple[str, str]
    minute: int


class PastRow(NamedTuple):
    """A row at the end of a minute: its cells after the index (see `votes/01_records.lua`), and ratings."""

    cells: tuple[int, ...]
    rating: RatingSums


class TimelineChange(NamedTuple):
    """A subject's value at the end of a minute in which it changed.

    The subject is ("", participant or "" for the contest), or (external source, one of its ids).
    """

    subject: tuple[str, str]
    minute: int
    value: PastRow | SourceFigures


class ChangesPage(NamedTuple):
    """A page of changes at `position`, ordered by time for each subject."""

    position: Position
    changes: list[TimelineChange]


def field_of(moment: Moment) -> bytes:
    """Encode the prefix of a value in the zset `minutes` of a contest."""
    subject, minute = moment
    match subject:
        case int():
            prefix = b"r" + subject.to_bytes(3, "big")
        case str():
            prefix = f"s{subject}\0".encode()
        case source, mapped_id:
            name = f"{source}\0{mapped_id}".encode()
            prefix = b"f" + len(name).to_bytes(4, "big") + name
    return prefix + minute.to_bytes(4, "big")


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
    """Decode the stored value of a subject at the end of a minute."""
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
    """Reads timelines of the live generation, or another one; `LedgerScan.fields` reads them whole.

    All methods raise `ViewsUnavailable`.
    """

    def __init__(
        self, valkey: Valkey, namespace: str, partitions: int | VotesLog, *, generation: int | None = None
    ) -> None:
        self._valkey = valkey
        self._namespace = namespace
        self._log = votes_log(namespace, partitions)
        self._generation = "" if generation is None else generation

    async def counts_at(
        self,
        partition: int,
        contest: str,
        minute: int,
        participants: Iterable[str],
        sources: Mapping[str, SourceCounts],
    ) -> ContestCounts:
        """Return counts of these participants and external sources at the end of a minute (since 1970).

        The minute must be final: the contest cannot change in it any more. The position is the current one. Reads
        in several short calls. Raises `ViewsUnavailable` also if the views are swapped during the read.
        """
        named = ["r", *(f"r{name}" for name in participants), *(f"s{name}" for name in sources)]
        named += [f"f{source}\0{mapped_id}" for source, mapped_id in ids_of(sources)]
        base = base_in(self._log, self._namespace, "votes", partition)
        args = contest, max(minute, -1), self._generation
        for _ in range(ATTEMPTS):
            parts = []
            for at in range(0, len(named), SUBJECTS):
                page = named[at : at + SUBJECTS]
                call = read_function(self._valkey, "votes_counts_at", base, *args, *page)
                parts.append(unpack(await call))
            if len({(part[0], part[3]) for part in parts}) == 1:
                offset = min(part[1] for part in parts)
                return contest_counts(joined(parts, [parts[0][0], offset, *parts[0][2:]]))
        raise ViewsUnavailable("The counts were replaced while they were read; retry shortly.", retry_after_s=1)

    async def first_minute(self, partition: int, contest: str) -> int | None:
        """Return the first minute in which the contest changed; None if it has not."""
        base = base_in(self._log, self._namespace, "votes", partition)
        first: int = await read_function(self._valkey, "votes_first_minute", base, contest, self._generation)
        return None if first < 0 else first

    async def changes(
        self,
        partition: int,
        contest: str,
        minutes: range,
        rows: Sequence[str],
        sources: Mapping[str, SourceCounts],
    ) -> AsyncIterator[ChangesPage]:
        """Yield the changes of these participants ("": the contest) and external sources' ids in `minutes`.

        Of the changes within one step of `minutes`, which begins at a multiple of its length, at least the last is
        included. A page is one call of 2 ms at most.
        """
        base = base_in(self._log, self._namespace, "votes", partition)
        args = contest, self._generation, minutes.start, minutes.stop, minutes.step
        wanted = [("", name) for name in rows] + list(ids_of(sources))
        at, since = 0, minutes.start
        while at < len(wanted):
            page = wanted[at : at + SUBJECTS]
            named = [f"f{source}\0{name}" if source else f"r{name}" for source, name in page]
            reply = await read_function(self._valkey, "votes_changes", base, *args, since, *named)
            log, offset, following, *lists = unpack(reply)
            changes = [
                TimelineChange(
                    subject, minute, source_figures(unpack(value)) if subject[0] else _past_row(unpack(value))
                )
                for subject, flat in zip(page, lists, strict=False)
                for minute, value in zip(flat[::2], flat[1::2], strict=True)
            ]
            yield ChangesPage(Position(log.decode(), offset), changes)
            at += len(lists) if following < 0 else len(lists) - 1
            since = minutes.start if following < 0 else following


def ids_of(sources: Mapping[str, SourceCounts]) -> Iterator[tuple[str, str]]:
    """Yield (external source, one of the ids that it reported)."""
    return ((name, mapped_id) for name, source in sources.items() for mapped_id in source.figures)
