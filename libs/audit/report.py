"""Result of a comparison of views and log, and the equations between a contest's sums."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from libs.audit.log_fold import UNNAMED, Difference, LogFold, VoteIds
from libs.catalogue.contests.vote_sources import Reason, Reported, SourceConfig, mapped, split
from libs.contracts.log_records import Position
from libs.contracts.ndjson_codec import HIDDEN, json_form
from libs.tally.events import VoteCast
from libs.tally.fold import ContestTally
from libs.tally.sources import SourceTally
from libs.tally.voter_ledger import VoteStatus

OUTCOMES: Final = {status: status.name.lower() for status in VoteStatus}
UNKNOWN: Final = SourceConfig("", is_in_total=False, mode="cumulative", mapping={}, retired=False, registered=0)
"""Represents a source that reported, but is no longer in the catalogue."""


@dataclass(slots=True)
class VotesRow:
    """One participant and source: distinct vote `ids` in the log, and their outcomes in the ledger."""

    ids: int = 0
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES.values(), 0))

    @property
    def balanced(self) -> bool:
        return self.ids == sum(self.outcomes.values())


@dataclass(slots=True)
class SourceBalance:
    """One participant and external source: latest `reported` votes, counted ones, and held ones by reason.

    A decreased id holds a negative number: its reported votes minus the votes counted in their place.
    """

    reported: int = 0
    counted: int = 0
    held: Counter[Reason] = field(default_factory=Counter)

    @property
    def balanced(self) -> bool:
        return self.reported == self.counted + sum(self.held.values())


Rows = defaultdict[tuple[str, str], VotesRow]
"""Rows by (participant or UNNAMED, source)."""


def add_votes(rows: Rows, ids: VoteIds, contest: str, tally: ContestTally) -> int:
    """Add a contest's votes of one partition to `rows`; return the number of distinct vote ids."""
    distinct = 0
    for used, participants in ids.of(contest, tally):
        distinct += 1
        for participant in participants:
            rows[participant, used.source].ids += 1
    for ledger in tally.voters.values():
        for vote in ledger.votes.values():
            for participant, _ in vote.cast.choices or ((UNNAMED, 0),):
                rows[participant, vote.cast.source].outcomes[OUTCOMES[vote.status]] += 1
    return distinct


def source_rows(
    config: SourceConfig, latest: Mapping[str, int], reported: Reported, participants: Collection[str]
) -> dict[str, SourceBalance]:
    """Return rows by participant or UNNAMED that compare the log's `latest` counts with the fold's `reported`."""
    rows: defaultdict[str, SourceBalance] = defaultdict(SourceBalance)
    mapping, found = mapped(config, participants), split(config, reported, participants)
    for mapped_id, votes in latest.items():
        rows[mapping.get(mapped_id, UNNAMED)].reported += votes
    for (participant, _), figures in found.counted.items():
        rows[participant].counted += figures.count
    for held in found.held:
        rows[mapping.get(held.mapped_id, UNNAMED)].held[held.reason] += held.reported.count - held.counted.count
    return dict(sorted(rows.items()))


MOST_KEPT = 1_000
"""Differences stored in full; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class SourceTotals:
    """One external source: the sum of its latest reports, and what the fold has of them by the source's own ids.

    Of the votes `taken_over`, readers count only those of mapped ids.
    """

    reported: dict[str, int] = field(metadata=HIDDEN)
    tally: SourceTally = field(metadata=HIDDEN)

    @property
    def latest(self) -> int:
        return sum(self.reported.values())

    @property
    def taken_over(self) -> dict[str, int]:
        return {mapped: figures.count for mapped, figures in sorted(self.tally.figures.items())}

    @property
    def held(self) -> dict[str, int]:
        return {mapped: figures.count for mapped, figures in sorted(self.tally.held.items())}

    @property
    def reports(self) -> int:
        return len(self.tally.reports)

    @property
    def balanced(self) -> bool:
        """True if latest reported = taken over + held; held ones replace an id's earlier taken-over votes."""
        return self.reported == self.taken_over | self.held


@dataclass(slots=True)
class ContestTotals:
    """One contest by the fold of the log: votes by participant and source, its distinct voters, and the reports of
    its external `sources`.

    `ids` are the distinct vote ids; `internal` and `external` the equations by (participant or UNNAMED, source).
    """

    unique_voter_count: int = 0
    anonymous_voter_count: int = 0
    participants: dict[str, dict[str, int]] = field(default_factory=dict)
    sources: dict[str, SourceTotals] = field(default_factory=dict)
    ids: int = 0
    internal: Rows = field(default_factory=lambda: Rows(VotesRow), metadata=HIDDEN)
    external: dict[tuple[str, str], SourceBalance] = field(default_factory=dict, metadata=HIDDEN)

    @property
    def count(self) -> int:
        return sum(sum(votes.values()) for votes in self.participants.values())

    @property
    def ledger(self) -> list[dict[str, Any]]:
        """The equations, each with its participant and source."""
        return [
            {"participant": participant or None, "source": source, **json_form(row)}
            for participant, source, row in self.rows()
        ]

    @property
    def balanced(self) -> bool:
        sources = (source.balanced for source in self.sources.values())
        return all(sources) and all(row.balanced for *_, row in self.rows())

    def rows(self) -> list[tuple[str, str, VotesRow | SourceBalance]]:
        """Return participant, source and equation of each row."""
        votes = [(*name, row) for name, row in sorted(self.internal.items())]
        return [*votes, *((*name, row) for name, row in sorted(self.external.items()))]

    @classmethod
    def of(cls, fold: LogFold, key: str) -> Self:
        """Return the totals of one partition, without the equations of external sources."""
        tally, totals = fold.tally.contests[key], cls()
        totals.ids = add_votes(totals.internal, fold.ids, key, tally)
        for (participant, source), figures in tally.figures.items():
            if participant and source:
                totals.participants.setdefault(participant, {})[source] = figures.count
        for name, reported in tally.sources.items():
            totals.sources[name] = SourceTotals(fold.reported.get((key, name), {}), reported)
        overall = tally.figures.get(("", ""))
        if overall is not None:
            totals.unique_voter_count, totals.anonymous_voter_count = overall.unique, overall.anonymous
        return totals

    def include(self, part: "ContestTotals") -> None:
        """Add the totals of another partition; an external source reports to one partition."""
        self.unique_voter_count += part.unique_voter_count
        self.anonymous_voter_count += part.anonymous_voter_count
        for participant, counts in part.participants.items():
            _add(self.participants.setdefault(participant, {}), counts)
        self.sources |= part.sources
        self.ids += part.ids
        for name, row in part.internal.items():
            self.internal[name].ids += row.ids
            _add(self.internal[name].outcomes, row.outcomes)
        self.external |= part.external


@dataclass(slots=True)
class VerificationReport:
    """Differences and balances. `positions` are the offsets of the last comparison, one per partition.

    The ledger's equation: `ids`, the distinct vote ids of unfenced casts in the log, are the sum of `outcomes` in
    the ledger; the same holds for each participant and source of each contest.
    """

    positions: dict[int, Position] = field(default_factory=dict)
    contests: dict[str, ContestTotals] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    """Titles of the contests and their participants, by key."""
    events: int = 0
    seconds: float = 0.0
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES.values(), 0))
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

    @classmethod
    def of(cls, fold: LogFold, contest: str | None, found: Sequence[Difference], position: Position) -> Self:
        """Return the report of one partition, of one contest or of all."""
        tallies = {key: tally for key, tally in fold.tally.contests.items() if contest in (None, key)}
        report = cls(
            positions={fold.partition: position},
            contests={key: ContestTotals.of(fold, key) for key in tallies},
            events=fold.offset,
            fenced=fold.tally.fenced,
            duplicates=fold.tally.duplicates,
            quarantined=fold.quarantined,
            differences=list(found[:MOST_KEPT]),
            difference_count=len(found),
        )
        for tally in tallies.values():
            _add(report.outcomes, {name: tally.ids[status] for status, name in OUTCOMES.items()})
        return report

    def include(self, part: "VerificationReport") -> None:
        """Add the report of other partitions."""
        self.positions |= part.positions
        for key, totals in part.contests.items():
            self.contests.setdefault(key, ContestTotals()).include(totals)
        self.events += part.events
        _add(self.outcomes, part.outcomes)
        self.fenced += part.fenced
        self.duplicates += part.duplicates
        self.quarantined += part.quarantined
        self.differences += part.differences[: MOST_KEPT - len(self.differences)]
        self.difference_count += part.difference_count


def _add(sums: dict[str, int], further: Mapping[str, int]) -> None:
    for name, number in further.items():
        sums[name] = sums.get(name, 0) + number


def counted_casts(fold: LogFold, contest: str) -> list[VoteCast]:
    """Return the votes of a contest that a partition's fold counts."""
    tally = fold.tally.contests.get(contest, ContestTally())
    return [
        vote.cast
        for ledger in tally.voters.values()
        for vote in ledger.votes.values()
        if vote.status is VoteStatus.COUNTED
    ]
