"""Result of a comparison of views and log."""

from dataclasses import dataclass, field
from typing import Any

from libs.audit.difference import Difference
from libs.audit.difference_rows import name_of
from libs.audit.equations import Rows, SourceRow, VotesRow, add_votes
from libs.audit.log_fold import LogFold
from libs.contracts.log_records import Position
from libs.tally.events import VoteCast
from libs.tally.fold import ContestTally
from libs.tally.sources import SourceTally
from libs.tally.voter_ledger import VoteStatus

MOST_KEPT = 1_000
"""Differences stored in full; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class SourceTotals:
    """One external source: its latest reports, by its own ids, and the fold's counted and held ones."""

    latest: dict[str, int]
    tally: SourceTally

    @property
    def balanced(self) -> bool:
        """True if latest reported = taken over + held; held ones replace an id's earlier taken-over votes."""
        kept = self.tally.figures | self.tally.held
        return self.latest == {mapped: figures.count for mapped, figures in kept.items()}

    def as_json(self) -> dict[str, Any]:
        """Return the JSON report; of the taken-over votes, readers count only the mapped ones."""
        return {
            "latest": sum(self.latest.values()),
            "taken_over": {mapped: figures.count for mapped, figures in sorted(self.tally.figures.items())},
            "held": {mapped: figures.count for mapped, figures in sorted(self.tally.held.items())},
            "reports": len(self.tally.reports),
            "balanced": self.balanced,
        }


@dataclass(slots=True)
class ContestTotals:
    """One contest by the fold of the log: `votes` by participant and source, its distinct voters, and the reports
    of its external `sources`.

    `ids` are the distinct vote ids; `internal` and `external` the equations by participant (or NOBODY) and source.
    """

    votes: dict[tuple[str, str], int] = field(default_factory=dict)
    sources: dict[str, SourceTotals] = field(default_factory=dict)
    unique_voters: int = 0
    anonymous_voters: int = 0
    ids: int = 0
    internal: Rows = field(default_factory=lambda: Rows(VotesRow))
    external: dict[tuple[str, str], SourceRow] = field(default_factory=dict)

    @property
    def rows(self) -> list[tuple[str, str, VotesRow | SourceRow]]:
        """Return participant, source and equation of each row."""
        votes = [(*name, row) for name, row in sorted(self.internal.items())]
        return [*votes, *((*name, row) for name, row in sorted(self.external.items()))]

    @property
    def balanced(self) -> bool:
        sources = (source.balanced for source in self.sources.values())
        return all(sources) and all(row.balanced for *_, row in self.rows)

    def add(self, key: str, fold: LogFold) -> None:
        tally = fold.tally.contests[key]
        self.ids += add_votes(self.internal, fold.ids, key, tally)
        for (participant, source), figures in tally.figures.items():
            if participant and source:
                self.votes[participant, source] = self.votes.get((participant, source), 0) + figures.count
        for name, reported in tally.sources.items():
            self.sources[name] = SourceTotals(fold.reported.get((key, name), {}), reported)
        overall = tally.figures.get(("", ""))
        if overall is not None:
            self.unique_voters += overall.unique
            self.anonymous_voters += overall.anonymous

    def as_json(self) -> dict[str, Any]:
        votes: dict[str, dict[str, int]] = {}
        for (participant, source), count in sorted(self.votes.items()):
            votes.setdefault(participant, {})[source] = count
        return {
            "count": sum(self.votes.values()),
            "unique_voter_count": self.unique_voters,
            "anonymous_voter_count": self.anonymous_voters,
            "participants": votes,
            "sources": {name: source.as_json() for name, source in sorted(self.sources.items())},
            "ledger": [
                {"participant": participant or None, "source": source, **row.as_json()}
                for participant, source, row in self.rows
            ],
        }


@dataclass(slots=True)
class Report:
    """Differences and balances. `positions` are the offsets of the last comparison, one per partition.

    The ledger's equation: `ids`, the distinct vote ids of unfenced casts in the log, are the sum of `outcomes` in
    the ledger; the same holds for each participant and source of each contest.
    """

    positions: dict[int, Position] = field(default_factory=dict)
    contests: dict[str, ContestTotals] = field(default_factory=dict)
    events: int = 0
    seconds: float = 0.0
    outcomes: dict[str, int] = field(default_factory=lambda: {name_of(status): 0 for status in VoteStatus})
    fenced: int = 0
    duplicates: int = 0
    quarantined: int = 0
    differences: list[Difference] = field(default_factory=list)
    difference_count: int = 0

    @property
    def ids(self) -> int:
        return sum(contest.ids for contest in self.contests.values())

    @property
    def balanced(self) -> bool:
        contests = all(contest.balanced for contest in self.contests.values())
        return contests and self.ids == sum(self.outcomes.values())

    @property
    def equal(self) -> bool:
        """Return whether the views are exactly the fold of the log, and its equations hold."""
        return self.difference_count == 0 and self.balanced

    @property
    def events_per_s(self) -> float:
        return self.events / self.seconds if self.seconds else 0.0

    def found(self, difference: Difference) -> None:
        self.difference_count += 1
        if len(self.differences) < MOST_KEPT:
            self.differences.append(difference)

    def add(self, fold: LogFold, contest: str | None) -> None:
        """Add a partition's fold, of one contest or of all."""
        self.fenced += fold.tally.fenced
        self.duplicates += fold.tally.duplicates
        self.quarantined += fold.quarantined
        for key, tally in fold.tally.contests.items():
            if contest in (None, key):
                self.contests.setdefault(key, ContestTotals()).add(key, fold)
                for status in VoteStatus:
                    self.outcomes[name_of(status)] += tally.ids[status]

    def as_json(self) -> dict[str, Any]:
        return {
            "equal": self.equal,
            "events": self.events,
            "seconds": round(self.seconds, 3),
            "events_per_s": round(self.events_per_s),
            "ledger": {"ids": self.ids, **self.outcomes, "balanced": self.balanced},
            "fenced": self.fenced,
            "duplicates": self.duplicates,
            "quarantined": self.quarantined,
            "positions": {str(partition): at._asdict() for partition, at in sorted(self.positions.items())},
            "contests": {key: totals.as_json() for key, totals in self.contests.items()},
            "difference_count": self.difference_count,
            "differences": [
                {name: getattr(difference, name) for name in Difference.__slots__}
                for difference in self.differences
            ],
        }


def counted_casts(fold: LogFold, contest: str) -> list[VoteCast]:
    """Return the votes of a contest that a partition's fold counts."""
    tally = fold.tally.contests.get(contest, ContestTally())
    return [
        vote.cast
        for standing in tally.voters.values()
        for vote in standing.votes.values()
        if vote.status is VoteStatus.COUNTED
    ]
