"""Finds patterns in a contest's votes that are worth a look: many votes from one address, in one minute, at once.

No verdict: a shared address may be a school, a minute the artist's own appeal. Times are in microseconds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nlargest
from math import sqrt
from operator import itemgetter
from typing import Final

from libs.tally.events import VoteCast
from libs.tally.fold import ContestTally
from libs.tally.voter_ledger import VoteStatus

MINUTE_US: Final = 60_000_000
AT_ONCE_US: Final = 10_000_000
"""Time in which a voter who uses up a limit is found."""
STANDARD_SCORE: Final = 4.0
"""A minute is found in which a participant has so many standard deviations more than its share of the votes."""


@dataclass(slots=True)
class Group:
    """Counted votes that have something in common."""

    votes: int = 0
    voters: set[str] = field(default_factory=set)
    first: int = 0
    last: int = 0
    participants: Counter[str] = field(default_factory=Counter)

    def add(self, cast: VoteCast) -> None:
        self.first = min(self.first or cast.accepted_at, cast.accepted_at)
        self.last = max(self.last, cast.accepted_at)
        self.voters.add(cast.voter)
        for participant, count in cast.choices:
            self.votes += count
            self.participants[participant] += count


@dataclass(frozen=True, slots=True)
class Pattern:
    """A group of votes of one `kind`; `name` is the address pseudonym, or empty.

    `share` is the group's part of the votes for `participant`, the one that has most of the group.
    """

    kind: str
    name: str
    participant: str
    votes: int
    voters: int
    first: int
    last: int
    share: float


def find_patterns(tallies: Iterable[ContestTally], least: int, most: int) -> list[Pattern]:
    """Return up to `most` patterns of each kind with at least so many votes, the largest first."""
    addresses: defaultdict[str, Group] = defaultdict(Group)
    minutes: defaultdict[tuple[str, int], Group] = defaultdict(Group)
    hasty: defaultdict[str, Group] = defaultdict(Group)
    every = Group()
    for tally in tallies:
        for ledger in tally.voters.values():
            casts = [vote.cast for vote in ledger.votes.values() if vote.status is VoteStatus.COUNTED]
            for cast in casts:
                every.add(cast)
                if cast.address is not None:
                    addresses[cast.address].add(cast)
                for participant, _ in cast.choices:
                    minutes[participant, cast.accepted_at // MINUTE_US].add(cast)
            for cast in _at_once(casts):
                for participant, _ in cast.choices:
                    hasty[participant].add(cast)
    whole = every.participants
    found = {
        "address": [_pattern("address", name, group, whole) for name, group in addresses.items()],
        "minute": [_pattern("minute", "", group, whole, name) for name, group in _bursts(minutes, whole)],
        "limit within seconds": [
            _pattern("limit within seconds", "", group, whole, name) for name, group in hasty.items()
        ],
    }
    return [
        one
        for of_kind in found.values()
        for one in nlargest(most, (each for each in of_kind if each.votes >= least), lambda each: each.votes)
    ]


def _at_once(casts: list[VoteCast]) -> list[VoteCast]:
    """Return a voter's votes if several used up a limit within `AT_ONCE_US`."""
    times = sorted(cast.accepted_at for cast in casts)
    is_used_up = any(0 in (cast.remaining_contest, cast.remaining_participant) for cast in casts)
    return casts if len(casts) > 1 and is_used_up and times[-1] - times[0] <= AT_ONCE_US else []


def _bursts(minutes: dict[tuple[str, int], Group], whole: Counter[str]) -> Iterator[tuple[str, Group]]:
    """Yield the groups of participants' minutes that stand out against the contest's course."""
    of_minute: Counter[int] = Counter()
    for (participant, minute), group in minutes.items():
        of_minute[minute] += group.participants[participant]
    total = whole.total()
    for (participant, minute), group in minutes.items():
        share = whole[participant] / total
        expected = of_minute[minute] * share
        deviation = sqrt(expected * (1 - share))
        if group.participants[participant] - expected > STANDARD_SCORE * deviation > 0:
            yield participant, group


def _pattern(kind: str, name: str, group: Group, whole: Counter[str], participant: str = "") -> Pattern:
    most = participant or max(group.participants.items(), key=itemgetter(1))[0]
    votes = group.participants[most] if participant else group.votes
    share = group.participants[most] / whole[most]
    return Pattern(kind, name, most, votes, len(group.voters), group.first, group.last, share)
