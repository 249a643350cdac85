"""Historical counts of a contest at the end of any minute (`votes/17_timeline.lua`).

An event's minute is the maximum append time of the events that changed the contest in the partition so far: append
times may go back, minutes do not. So all before a change in a later minute is final, and the same in every fold.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from libs.contracts.log_records import Position
from libs.tally.counts import RatingSums
from libs.tally.errors import ViewsUnavailable
from libs.views.valkey.function_libraries import unpack
from libs.views.votes.counts_replies import contest_counts, joined, rating_sums, source_figures
from libs.views.votes.reply_types import ContestCounts, SourceCounts, SourceFigures
from libs.views.votes.vote_reads import VoteReads

MINUTE_MS: Final = 60_000
SUBJECTS: Final = 100
"""Maximum number of subjects per call."""
ATTEMPTS: Final = 3
"""Attempts to read a contest whose view is swapped during the read."""


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


def past_row(stored: Sequence[Any]) -> PastRow:
    """Decode a row's cells and packed rating."""
    cells, rating = stored
    return PastRow(tuple(cells[1:]), rating_sums(unpack(rating)) if rating else RatingSums())


class Timeline:
    """Reads timelines of the generation that `views` read. All methods raise `ViewsUnavailable`."""

    def __init__(self, views: VoteReads) -> None:
        self._views = views

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
        args = contest, max(minute, -1), self._views.named
        for _ in range(ATTEMPTS):
            parts = []
            for at in range(0, len(named), SUBJECTS):
                page = named[at : at + SUBJECTS]
                parts.append(unpack(await self._views.read("votes_counts_at", partition, *args, *page)))
            if len({(part[0], part[3]) for part in parts}) == 1:
                offset = min(part[1] for part in parts)
                return contest_counts(joined(parts, [parts[0][0], offset, *parts[0][2:]]))
        raise ViewsUnavailable("The counts were replaced while they were read; retry shortly.", retry_after_s=1)

    async def first_minute(self, partition: int, contest: str) -> int | None:
        """Return the first minute in which the contest changed; None if it has not."""
        first: int = await self._views.read("votes_first_minute", partition, contest, self._views.named)
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
        args = contest, self._views.named, minutes.start, minutes.stop, minutes.step
        wanted = [("", name) for name in rows] + list(ids_of(sources))
        at, since = 0, minutes.start
        while at < len(wanted):
            page = wanted[at : at + SUBJECTS]
            named = [f"f{source}\0{name}" if source else f"r{name}" for source, name in page]
            reply = await self._views.read("votes_changes", partition, *args, since, *named)
            log, offset, following, *lists = unpack(reply)
            changes = [
                TimelineChange(
                    subject, minute, source_figures(unpack(value)) if subject[0] else past_row(unpack(value))
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
