"""The fold of one partition of the votes log: what the events up to a position add up to.

This is the reference. The Valkey functions in `libs/views/lua/votes` compute the same, and property tests hold the
two equal; `tally verify` folds with this one. It reads no clock: the same events give the same tally, always.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import assert_never

from libs.tally.contest import UNLIMITED
from libs.tally.events import Event, Fence, LogCreated, VoteCast


class VoteStatus(IntEnum):
    """What became of an accepted vote, by the fold."""

    COUNTED = 0
    OVERRULED = 1
    """It exceeded the limits that it was judged by itself; expected never to happen, kept and alerted on."""


@dataclass(slots=True)
class Figures:
    """Votes, distinct voters, and those of them who are anonymous."""

    count: int = 0
    unique: int = 0
    anonymous: int = 0

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(self.count + other.count, self.unique + other.unique, self.anonymous + other.anonymous)


@dataclass(slots=True)
class Used:
    """Votes of one voter within one limit, and the largest limit that they carry."""

    votes: int = 0
    limit: int | None = None

    def admits(self, count: int, limit: int) -> bool:
        bound = largest(self.limit, limit)
        return bound == UNLIMITED or self.votes + count <= bound

    def add(self, count: int, limit: int) -> None:
        self.votes += count
        self.limit = largest(self.limit, limit)


@dataclass(frozen=True, slots=True)
class FoldedVote:
    """One vote id of one voter, as the ledger keeps it."""

    cast: VoteCast
    offset: int
    status: VoteStatus


@dataclass(slots=True)
class Standing:
    """One voter of one contest: the ids that were used, and what they used up.

    `used` is keyed by (participant or "" for the contest, source, epoch).
    """

    votes: dict[str, FoldedVote] = field(default_factory=dict)
    used: dict[tuple[str, str, int], Used] = field(default_factory=dict)

    def voted(self, participant: str | None = None, source: str | None = None) -> bool:
        """Whether any vote counts for `participant` from `source` (None: any)."""
        return any(
            (participant is None or key[0] == participant) and (source is None or key[1] == source)
            for key in self.used
        )


@dataclass(slots=True)
class ContestTally:
    """One contest in one partition. A voter lives in one partition, so sums over partitions are exact.

    `figures` is keyed by (participant or "" for the contest, source or "" for both).
    """

    voters: dict[str, Standing] = field(default_factory=dict)
    figures: dict[tuple[str, str], Figures] = field(default_factory=dict)
    counted_ids: int = 0
    overruled_ids: int = 0
    last_offset: int = -1
    last_time_ms: int = 0

    def at(self, participant: str, source: str) -> Figures:
        return self.figures.setdefault((participant, source), Figures())


@dataclass(slots=True)
class PartitionTally:
    """The fold of one partition. `fenced` and `duplicates` are records that changed nothing."""

    fence: int = 0
    contests: dict[str, ContestTally] = field(default_factory=dict)
    fenced: int = 0
    duplicates: int = 0

    @property
    def overruled(self) -> int:
        return sum(contest.overruled_ids for contest in self.contests.values())

    def evolve(self, event: Event, offset: int, time_ms: int) -> None:
        """Fold one event in place; `time_ms` is the broker's append time."""
        match event:
            case VoteCast():
                self._cast(event, offset, time_ms)
            case Fence():
                if event.incarnation > self.fence and event.after in (None, self.fence):
                    self.fence = event.incarnation
            case LogCreated():
                pass
            case _:
                assert_never(event)

    def _cast(self, cast: VoteCast, offset: int, time_ms: int) -> None:
        if cast.incarnation != self.fence:
            self.fenced += 1
            return
        contest = self.contests.setdefault(cast.contest, ContestTally())
        standing = contest.voters.setdefault(cast.voter, Standing())
        if cast.vote_id in standing.votes:
            self.duplicates += 1
            return
        counts = _within_limits(standing, cast)
        if counts:
            _count(contest, standing, cast)
            contest.counted_ids += 1
        else:
            contest.overruled_ids += 1
        status = VoteStatus.COUNTED if counts else VoteStatus.OVERRULED
        standing.votes[cast.vote_id] = FoldedVote(cast, offset, status)
        contest.last_offset = offset
        contest.last_time_ms = max(contest.last_time_ms, time_ms)


def largest(a: int | None, b: int) -> int:
    """The larger of two limits; no limit is the largest."""
    if a is None:
        return b
    return UNLIMITED if UNLIMITED in (a, b) else max(a, b)


def _within_limits(standing: Standing, cast: VoteCast) -> bool:
    votes = sum(count for _, count in cast.choices)
    in_contest = standing.used.get(("", cast.source, cast.epoch), Used())
    return in_contest.admits(votes, cast.max_contest) and all(
        standing.used.get((participant, cast.source, cast.epoch), Used()).admits(count, cast.max_participant)
        for participant, count in cast.choices
    )


def _count(contest: ContestTally, standing: Standing, cast: VoteCast) -> None:
    first_in_contest = {source: not standing.voted(source=source) for source in (cast.source, None)}
    for source, first in first_in_contest.items():
        _add_voter(contest.at("", source or ""), first, cast.anonymous)
    for participant, count in cast.choices:
        for source in (cast.source, None):
            first = not standing.voted(participant, source)
            _add_voter(contest.at(participant, source or ""), first, cast.anonymous)
        contest.at(participant, cast.source).count += count
        contest.at("", cast.source).count += count
        for key, limit in ((participant, cast.max_participant), ("", cast.max_contest)):
            standing.used.setdefault((key, cast.source, cast.epoch), Used()).add(count, limit)


def _add_voter(figures: Figures, first: bool, anonymous: bool) -> None:
    if first:
        figures.unique += 1
        figures.anonymous += anonymous
