"""The ledger's equations: what came in, by the log itself, is what the fold has somewhere.

Of votes: distinct vote ids of unfenced casts = counted + removed + voided + replaced + overruled + late, at each
participant and source. The left side is counted here, record by record, with no regard to the fold; the right side
are the statuses in the folded ledger. A ballot's id stands at each participant that the ballot names. An id that a
removal used up before it was cast names nobody, and has a row without a participant.

Of an external source: what it reported last = counted + held, by the participants that its ids are mapped to; a
row without a participant is of ids that are mapped to nobody.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from libs.catalogue.contests.vote_sources import Reason, Reported, SourceConfig, mapped, split
from libs.tally.events import Event, Fence, VoteCast, VoteRemoved
from libs.tally.fold import ContestTally
from libs.tally.voter_ledger import VoterLedger, VoteStatus

NOBODY: Final = ""
UNKNOWN: Final = SourceConfig("", is_in_total=False, mode="cumulative", mapping={}, retired=False, registered=0)
"""A source that reported, and that the catalogue does not know (any more)."""

VoteName = tuple[str, str]
"""(voter, vote id)"""


@dataclass(slots=True)
class VoteIds:
    """The vote ids of one partition's log, by contest: the first unfenced cast of each, and the first unfenced
    removal, with its offset, of those that were not cast by then.
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
        """What first used each id, and the participants that it names.

        The fold is asked for one thing only: whether a removal that came before the cast used the id up, or waits
        for a reopening.
        """
        casts, removals = self.casts[contest], self.removals[contest]
        for name, cast in casts.items():
            if name not in removals or not _is_used_up(tally, name):
                yield cast, tuple(participant for participant, _ in cast.choices)
        for name, (removal, offset) in removals.items():
            waits = name in tally.waiting and tally.waiting[name][1] == offset
            if not waits and (name not in casts or _is_used_up(tally, name)):
                yield removal, (NOBODY,)


@dataclass(slots=True)
class VotesRow:
    """One participant and source: distinct `ids` by the log, and what became of them by the ledger."""

    ids: int = 0
    outcomes: Counter[VoteStatus] = field(default_factory=Counter)

    @property
    def balanced(self) -> bool:
        return self.ids == sum(self.outcomes.values())

    def as_json(self) -> dict[str, Any]:
        outcomes = {status.name.lower(): self.outcomes[status] for status in VoteStatus}
        return {"ids": self.ids, **outcomes, "balanced": self.balanced}


@dataclass(slots=True)
class SourceRow:
    """One participant and external source: votes `reported` last, and what of them is counted, or held and why.

    An id that went down holds less than nothing: what it reported less what counts instead.
    """

    reported: int = 0
    counted: int = 0
    held: Counter[Reason] = field(default_factory=Counter)

    @property
    def balanced(self) -> bool:
        return self.reported == self.counted + sum(self.held.values())

    def as_json(self) -> dict[str, Any]:
        shown = {"reported": self.reported, "counted": self.counted}
        return {**shown, "held": dict(self.held), "balanced": self.balanced}


Rows = defaultdict[tuple[str, str], VotesRow]
"""By (participant or NOBODY, source)."""


def add_votes(rows: Rows, ids: VoteIds, contest: str, tally: ContestTally) -> int:
    """Add a contest's votes of one partition to `rows`; returns its distinct vote ids."""
    distinct = 0
    for used, participants in ids.of(contest, tally):
        distinct += 1
        for participant in participants:
            rows[participant, used.source].ids += 1
    for standing in tally.voters.values():
        for vote in standing.votes.values():
            for participant, _ in vote.cast.choices or ((NOBODY, 0),):
                rows[participant, vote.cast.source].outcomes[vote.status] += 1
    return distinct


def source_rows(
    config: SourceConfig, latest: Mapping[str, int], reported: Reported, participants: Collection[str]
) -> dict[str, SourceRow]:
    """By participant or NOBODY: `latest` by the log and by the source's ids, against what the fold `reported`."""
    rows: defaultdict[str, SourceRow] = defaultdict(SourceRow)
    mapping, found = mapped(config, participants), split(config, reported, participants)
    for mapped_id, votes in latest.items():
        rows[mapping.get(mapped_id, NOBODY)].reported += votes
    for (participant, _), figures in found.counted.items():
        rows[participant].counted += figures.count
    for held in found.held:
        rows[mapping.get(held.mapped_id, NOBODY)].held[held.reason] += held.reported.count - held.counted.count
    return dict(sorted(rows.items()))


def _is_used_up(tally: ContestTally, name: VoteName) -> bool:
    """Whether the ledger holds the id as one that was removed before it was cast."""
    voter, vote_id = name
    vote = tally.voters.get(voter, VoterLedger()).votes.get(vote_id)
    return vote is not None and not vote.cast.choices
