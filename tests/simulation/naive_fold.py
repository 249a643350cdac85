"""Naive count of a votes log: a list of votes, searched again for every question."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from libs.tally.contest import UNLIMITED
from libs.tally.counts import VoteSums
from libs.tally.events import (
    ContestClosed,
    ContestReopened,
    Event,
    Fence,
    SourceReported,
    VoteCast,
    VoteRemoved,
    VoteRestored,
    VoteVoided,
)
from libs.tally.voter_ledger import VoteStatus

Sum = tuple[str, str, int, str]
"""(voter, source, allowance period, participant or "" for the contest)"""
Change = VoteRemoved | VoteVoided | VoteRestored
USING = VoteStatus.COUNTED, VoteStatus.VOIDED


@dataclass(slots=True)
class Vote:
    """`cast` is None for an id that was removed before it came. `voids` are the operations that took it out."""

    cast: VoteCast | None
    status: VoteStatus
    epoch: int = 0
    voids: list[str] = field(default_factory=list)

    def parts(self) -> Iterator[tuple[Sum, int]]:
        """Return the votes that it uses, by sum."""
        cast = self.cast
        if cast is not None:
            for participant, count in cast.choices:
                yield (cast.voter, cast.source, self.epoch, participant), count
            contest = 1 if cast.form == "ballot" else sum(count for _, count in cast.choices)
            yield (cast.voter, cast.source, self.epoch, ""), contest


@dataclass(slots=True)
class PlainCount:
    """One contest in one partition."""

    votes: dict[tuple[str, str], Vote] = field(default_factory=dict)
    anonymous: dict[str, bool] = field(default_factory=dict)
    limits: dict[Sum, list[int]] = field(default_factory=lambda: defaultdict(list))
    fence: int = 0
    closed: int = 0
    reopened: int = 0
    closed_sources: dict[str, int] = field(default_factory=dict)
    reported: dict[tuple[str, str], int] = field(default_factory=dict)
    """The latest count of each source and mapped id."""
    reports: set[tuple[str, str]] = field(default_factory=set)
    waiting: list[Change] = field(default_factory=list)

    def take(self, event: Event) -> None:
        match event:
            case Fence():
                if event.after in (None, self.fence) and event.incarnation > self.fence:
                    self.fence = event.incarnation
            case VoteCast() | VoteRemoved() if event.incarnation >= self.fence:
                if isinstance(event, VoteCast):
                    self._cast(event)
                else:
                    self._take_out(event)
            case VoteVoided() | VoteRestored():
                self._take_out(event)
            case ContestClosed(source=None) if event.seq > self.reopened:
                self.closed = max(self.closed, event.seq)
            case ContestReopened() if event.seq > self.reopened:
                if self.closed <= event.seq:
                    self._reopen(event)
                else:
                    self.reopened = event.seq
                self.closed_sources = {s: seq for s, seq in self.closed_sources.items() if seq > self.reopened}
            case ContestClosed(source=str() as source) if event.seq > self.reopened:
                self.closed_sources[source] = max(event.seq, self.closed_sources.get(source, 0))
            case SourceReported() if (event.source, event.report_id) not in self.reports:
                self._report(event)

    def _report(self, report: SourceReported) -> None:
        self.reports.add((report.source, report.report_id))
        for mapped, count, _, _ in report.counts if report.source not in self.closed_sources else ():
            name = report.source, mapped
            self.reported[name] = count + (self.reported.get(name, 0) if report.mode == "delta" else 0)

    def _reopen(self, event: ContestReopened) -> None:
        """Waiting events take effect first; the closing is in force until nothing waits."""
        cut = len(self.waiting) if event.at_most is None else event.at_most
        waited, self.waiting = self.waiting[:cut], self.waiting[cut:]
        closed, self.closed = self.closed, 0
        for late in waited:
            self._take_out(late)
        if self.waiting:
            self.closed = closed
        else:
            self.reopened = event.seq

    def _cast(self, cast: VoteCast) -> None:
        self.anonymous.setdefault(cast.voter, cast.anonymous)
        if (cast.voter, cast.vote_id) in self.votes:
            return
        vote = Vote(cast, VoteStatus.COUNTED, cast.epoch)
        former = self._former(cast)
        if self.closed:
            vote.status = VoteStatus.LATE
        elif former is not None:
            former.status, vote.epoch = VoteStatus.REPLACED, former.epoch
        elif any(self._exceeds(vote, key, votes) for key, votes in vote.parts()):
            vote.status = VoteStatus.OVERRULED
        self.votes[cast.voter, cast.vote_id] = vote
        if vote.status is VoteStatus.COUNTED:
            for key, _ in vote.parts():
                if former is None or key[3]:
                    self.limits[key].append(cast.max_participant if key[3] else cast.max_contest)

    def _former(self, cast: VoteCast) -> Vote | None:
        """The voter's last vote of the same slot, while it counts."""
        if cast.form == "plain" or (cast.form == "rating" and cast.max_participant != 1):
            return None
        what = cast.choices[0][0] if cast.form == "rating" else ""
        for vote in reversed(self.votes.values()):
            its = vote.cast
            if its is None or vote.status in (VoteStatus.OVERRULED, VoteStatus.LATE):
                continue
            about = its.choices[0][0] if its.form == "rating" else ""
            if (its.voter, its.source, its.form, about) == (cast.voter, cast.source, cast.form, what):
                return vote if vote.status in USING else None
        return None

    def _exceeds(self, vote: Vote, key: Sum, votes: int) -> bool:
        assert vote.cast is not None
        limits = [*self.limits[key], vote.cast.max_participant if key[3] else vote.cast.max_contest]
        return UNLIMITED not in limits and self.used()[key] + votes > max(limits)

    def _take_out(self, event: Change) -> None:
        vote = self.votes.get((event.voter, event.vote_id))
        if self.closed:
            if not any(_is_same(event, late) for late in self.waiting):
                self.waiting.append(event)
        elif isinstance(event, VoteRemoved):
            self._remove(event)
        elif vote is None:
            pass
        elif isinstance(event, VoteVoided):
            if vote.status is VoteStatus.COUNTED and event.void not in vote.voids:
                vote.status = VoteStatus.VOIDED
                vote.voids.append(event.void)
        elif vote.status is VoteStatus.VOIDED and vote.voids[-1] == event.void:
            vote.status = VoteStatus.COUNTED

    def _remove(self, removal: VoteRemoved) -> None:
        self.anonymous.setdefault(removal.voter, removal.anonymous)
        vote = self.votes.setdefault((removal.voter, removal.vote_id), Vote(None, VoteStatus.REMOVED))
        if vote.status in USING:
            vote.status = VoteStatus.REMOVED

    def counting(self) -> Iterator[Vote]:
        return (vote for vote in self.votes.values() if vote.status is VoteStatus.COUNTED)

    def used(self) -> Counter[Sum]:
        """Return the allowance used by votes that count, and by voided ones."""
        used: Counter[Sum] = Counter()
        for vote in self.votes.values():
            for key, votes in vote.parts() if vote.status in USING else ():
                used[key] += votes
        return used

    def latest_epoch(self, voter: str) -> int:
        """The latest allowance period that a free vote of the voter carries, whatever became of it."""
        casts = (vote.cast for vote in self.votes.values())
        return max(
            (cast.epoch for cast in casts if cast and (cast.voter, cast.source) == (voter, "c-free")), default=0
        )

    def figures(self) -> dict[tuple[str, str], VoteSums]:
        """By (participant or "", source or ""), as the fold: no count over both sources, nothing empty."""
        counts: Counter[tuple[str, str]] = Counter()
        voters: dict[tuple[str, str], set[str]] = defaultdict(set)
        for vote in self.counting():
            assert vote.cast is not None
            source, voter = vote.cast.source, vote.cast.voter
            for participant, count in vote.cast.choices:
                counts[participant, source] += count
                counts["", source] += count
            for participant in ("", *(participant for participant, _ in vote.cast.choices)):
                voters[participant, source].add(voter)
                voters[participant, ""].add(voter)
        return {
            key: VoteSums(counts[key], len(who), sum(self.anonymous[voter] for voter in who))
            for key, who in voters.items()
        }

    def ratings(self) -> dict[str, tuple[int, int, dict[str, tuple[int, int]]]]:
        """Return number and sum of ratings by participant or "", and of sub-ratings; without empty ones."""
        given: dict[str, list[int]] = defaultdict(list)
        subs: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for vote in self.counting():
            if vote.cast is not None and vote.cast.rating is not None:
                for name in ("", vote.cast.choices[0][0]):
                    given[name].append(vote.cast.rating.value)
                    for sub, value in vote.cast.rating.sub_ratings:
                        subs[name][sub].append(value)
        return {
            name: (len(of), sum(of), {sub: (len(values), sum(values)) for sub, values in subs[name].items()})
            for name, of in given.items()
        }


def plainly(log: Sequence[Event]) -> PlainCount:
    count = PlainCount()
    for event in log:
        count.take(event)
    return count


def _is_same(event: Change, other: Change) -> bool:
    """Return whether the one is a copy of the other."""
    what = event.type, event.voter, event.vote_id, getattr(event, "void", None)
    return what == (other.type, other.voter, other.vote_id, getattr(other, "void", None))
