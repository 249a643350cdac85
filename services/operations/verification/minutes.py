"""What contests were at the ends of minutes, by the fold: what their timelines are compared with."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import astuple

from libs.tally.events import ContestClosed, ContestReopened, Event, SourceReported
from libs.tally.figures import Figures, RatingSums
from libs.tally.standing import VoteStatus
from libs.tally.tallies import ContestTally, PartitionTally
from libs.views.packing import SOURCES
from libs.views.states import SourceCounts
from libs.views.timeline import MINUTE_MS, PastRow

Subject = int | str
Past = PastRow | SourceCounts


class Minutes:
    """Told of every event before and after `tally` evolves by it. `indexes` number each contest's participants."""

    def __init__(self, tally: PartitionTally, indexes: Mapping[str, Mapping[str, int]]) -> None:
        self._tally = tally
        self._indexes = indexes
        self._past: dict[str, dict[Subject, dict[int, Past]]] = {}
        self._reported: defaultdict[str, set[str]] = defaultdict(set)

    def before(self, event: Event, time_ms: int) -> None:
        name = getattr(event, "contest", "")
        contest = self._tally.contests.get(name)
        if contest is not None and time_ms // MINUTE_MS > contest.last_time_ms // MINUTE_MS:
            self._note(name, contest)

    def after(self, event: Event, offset: int) -> None:
        """External sources say themselves which of them changed; of participants the tally does."""
        match event:
            case SourceReported() | ContestClosed(source=str()) | ContestReopened():
                contest = self._tally.contests[event.contest]
                if contest.last_offset == offset:
                    self._reported[event.contest].update(_changed(contest, event))

    def of(self, name: str) -> Mapping[Subject, Mapping[int, Past]]:
        """By minute, of each row and source: what it was at the end, where it changed in it. The last goes on."""
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
        for source in self._reported.pop(name, ()):
            kept = contest.sources[source]
            copied = SourceCounts(kept.closed, kept.updated_ms, dict(kept.figures), dict(kept.held))
            past.setdefault(source, {})[minute] = copied


def _changed(contest: ContestTally, event: SourceReported | ContestClosed | ContestReopened) -> Iterator[str]:
    match event:
        case ContestReopened():
            if contest.reopened < event.seq:
                return  # some of what waited took effect, and more is to
            yield from (name for name, source in contest.sources.items() if not source.closed)
        case SourceReported() if contest.sources[event.source].reports[event.report_id].late:
            return
        case _ if event.source is not None:
            yield event.source


def _row(contest: ContestTally, participant: str, *further: int) -> PastRow:
    free, paid, both = (contest.figures.get((participant, source), Figures()) for source in (*SOURCES, ""))
    cells = *astuple(free), *astuple(paid), both.unique, both.anonymous, *further
    return PastRow(cells, contest.ratings.get(participant, RatingSums()))


def _marks(contest: ContestTally) -> list[int]:
    """What the contest's own row has besides."""
    ids = (contest.ids[status] for status in VoteStatus)
    return [contest.last_offset, contest.last_time_ms, *ids, contest.closed, contest.reopened]
