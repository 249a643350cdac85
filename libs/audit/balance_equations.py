"""Balances: each vote id and report in the log is accounted for in the fold.

Votes: distinct vote ids of unfenced casts = counted + removed + voided + replaced + overruled + late, for each
participant and source. The left side is counted here from the records, independent of the fold; the right side are
the statuses in the folded ledger. A ballot's id counts for each participant on the ballot. An id that a removal
used up before its cast names no participant and has a row without one.

External sources: latest reported = counted + held, by the participants to whom the ids are mapped; unmapped ids
have a row without a participant.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from libs.catalogue.contests.vote_sources import Reason, Reported, SourceConfig, mapped, split
from libs.tally.events import Event, Fence, VoteCast, VoteRemoved
from libs.tally.fold import ContestTally
from libs.tally.voter_ledger import VoterLedger, VoteStatus

UNNAMED: Final = ""
OUTCOMES: Final = {status: status.name.lower() for status in VoteStatus}
UNKNOWN: Final = SourceConfig("", is_in_total=False, mode="cumulative", mapping={}, retired=False, registered=0)
"""Represents a source that reported, but is no longer in the catalogue."""

VoteName = tuple[str, str]
"""(voter, vote id)"""


@dataclass(slots=True)
class VoteIds:
    """The vote ids of one partition's log, by contest: the first unfenced cast of each id, or the first unfenced
    removal (with its offset) if no cast came before it.
    """

    casts: defaultdict[str, dict[VoteName, VoteCast]] = field(default_factory=lambda: defaultdict(dict))
    removals: defaultdict[str, dict[VoteName, tuple[VoteRemoved, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _fence: int = 0

    def take(self, event: Event, offset: int) -> None:
        match event:
            case Fence() if event.incarnation > self._fence and event.after in (None, self._fence):
                self._fence = event.incarnation
            case VoteCast() if event.incarnation == self._fence:
                self.casts[event.contest].setdefault((event.voter, event.vote_id), event)
            case VoteRemoved() if event.incarnation == self._fence:
                if (event.voter, event.vote_id) not in self.casts[event.contest]:
                    self.removals[event.contest].setdefault((event.voter, event.vote_id), (event, offset))

    def of(self, contest: str, tally: ContestTally) -> Iterator[tuple[VoteCast | VoteRemoved, tuple[str, ...]]]:
        """Yield the first use of each id, with the participants that it names.

        Uses the fold only to find out whether a removal before its cast used up the id, or waits for a reopening.
        """
        casts, removals = self.casts[contest], self.removals[contest]
        for name, cast in casts.items():
            if name not in removals or not _is_used_up(tally, name):
                yield cast, tuple(participant for participant, _ in cast.choices)
        for name, (removal, offset) in removals.items():
            waits = name in tally.waiting and tally.waiting[name][1] == offset
            if not waits and (name not in casts or _is_used_up(tally, name)):
                yield removal, (UNNAMED,)


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


def _is_used_up(tally: ContestTally, name: VoteName) -> bool:
    """Return whether the ledger holds the id as removed before it was cast."""
    voter, vote_id = name
    vote = tally.voters.get(voter, VoterLedger()).votes.get(vote_id)
    return vote is not None and not vote.cast.choices
