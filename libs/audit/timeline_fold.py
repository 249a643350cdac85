"""Folds contests' states at the ends of minutes, to compare with their timelines."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import astuple

from libs.tally.counts import RatingSums, VoteSums
from libs.tally.events import ContestClosed, Event, SourceReported
from libs.tally.fold import ContestTally, PartitionTally
from libs.tally.voter_ledger import VoteStatus
from libs.views.reply_types import SourceFigures, SourceRow
from libs.views.serialization import SOURCES
from libs.views.timeline import MINUTE_MS, PastRow

Subject = int | str | tuple[str, str]
Past = PastRow | SourceRow | SourceFigures


class TimelineFold:
    """Receives every event before and after `tally` applies it. `indexes` number each contest's participants."""

    def __init__(self, tally: PartitionTally, indexes: Mapping[str, Mapping[str, int]]) -> None:
        self._tally = tally
        self._indexes = indexes
        self._past: dict[str, dict[Subject, dict[int, Past]]] = {}
        self.releases: defaultdict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        """Minutes in which all held votes were taken over, by contest and external source."""
        self._releases = False

    def before(self, event: Event, time_ms: int) -> None:
        name = getattr(event, "contest", "")
        contest = self._tally.contests.get(name)
        if contest is not None and time_ms // MINUTE_MS > contest.last_time_ms // MINUTE_MS:
            self._note(name, contest)
        self._releases = isinstance(event, SourceReported) and event.allow_decrease and _holds(contest, event)

    def after(self, event: Event, offset: int) -> None:
        """Note the change: of external sources and ids by the event, of participants by the tally."""
        match event:
            case SourceReported() | ContestClosed(source=str()):
                contest = self._tally.contests[event.contest]
                if contest.last_offset == offset:
                    self._note_source(contest, event)

    def _note_source(self, contest: ContestTally, event: SourceReported | ContestClosed) -> None:
        assert event.source is not None
        source, minute = contest.sources[event.source], contest.last_time_ms // MINUTE_MS
        past, released = self._past.setdefault(event.contest, {}), self.releases[event.contest][event.source]
        if isinstance(event, SourceReported):
            if source.reports[event.report_id].late:
                return
            released += [minute] * self._releases
            for mapped_id, *_ in event.counts:
                held = source.held.get(mapped_id)
                its = SourceFigures(source.figures[mapped_id], minute, held, len(released) if held else 0)
                past.setdefault((event.source, mapped_id), {})[minute] = its
        sizes = len(source.figures), len(source.held), len(released)
        past.setdefault(event.source, {})[minute] = SourceRow(source.closed, source.updated_ms, minute, *sizes)

    def of(self, name: str) -> Mapping[Subject, Mapping[int, Past]]:
        """Return each row's and source's states by minute: at the end of each minute with a change. The last one
        is open.
        """
        contest = self._tally.contests.get(name)
        if contest is not None and contest.last_offset >= 0:
            self._note(name, contest)
        return self._past.get(name, {})

    def _note(self, name: str, contest: ContestTally) -> None:
        minute, past = contest.last_time_ms // MINUTE_MS, self._past.setdefault(name, {})
        past.setdefault(0, {})[minute] = _row(contest, "", *_marks(contest))
        for participant in contest.touched:
            index = self._indexes[name][participant]
            past.setdefault(index, {})[minute] = _row(contest, participant, minute)
        contest.touched.clear()


def _holds(contest: ContestTally | None, event: SourceReported) -> bool:
    source = None if contest is None else contest.sources.get(event.source)
    return source is not None and bool(source.held)


def _row(contest: ContestTally, participant: str, *further: int) -> PastRow:
    free, paid, both = (contest.figures.get((participant, source), VoteSums()) for source in (*SOURCES, ""))
    cells = *astuple(free), *astuple(paid), both.unique, both.anonymous, *further
    return PastRow(cells, contest.ratings.get(participant, RatingSums()))


def _marks(contest: ContestTally) -> list[int]:
    """Return the additional values of the contest's own row."""
    ids = (contest.ids[status] for status in VoteStatus)
    return [contest.last_offset, contest.last_time_ms, *ids, contest.closed, contest.reopened]
