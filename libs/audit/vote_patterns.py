"""Finds patterns in a contest's votes that are worth a look: many votes from one address, in one minute, at once.

No verdict: a shared address may be a school, a minute the artist's own appeal. Times are in microseconds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from math import sqrt
from typing import Final

from libs.tally.events import VoteCast
from libs.tally.fold import ContestTally
from libs.tally.voter_ledger import VoteStatus

Minute = tuple[str, int]
"""A participant, and a minute since 1970."""

MINUTE_US: Final = 60_000_000
AT_ONCE_US: Final = 10_000_000
"""Time in which a voter who uses up a limit is found."""
STANDARD_SCORE: Final = 4.0
"""A minute is found in which a participant has so many standard deviations more than its share of the votes."""


@dataclass(slots=True)
class Group:
    """Counted votes that have something in common."""

    votes: int = 0
    voters: int = 0
    first: int = 0
    last: int = 0
    participants: Counter[str] = field(default_factory=Counter)

    def add(self, casts: Sequence[VoteCast], only: str = "") -> None:
        """Add votes of a voter of whom the group has none yet; only those for a participant, if one is given."""
        self.voters += 1
        for cast in casts:
            self.first = min(self.first or cast.accepted_at, cast.accepted_at)
            self.last = max(self.last, cast.accepted_at)
            for participant, count in cast.choices:
                if only in ("", participant):
                    self.votes += count
                    self.participants[participant] += count


@dataclass(frozen=True, slots=True)
class Pattern:
    """A group of votes of one `kind`; `name` is the address's pseudonym, or empty.

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


class PatternSearch:
    """Finds patterns in the partitions of a contest, whose tallies are added one after the other."""

    def __init__(self) -> None:
        self._addresses: defaultdict[str, Group] = defaultdict(Group)
        self._minutes: defaultdict[tuple[str, int], Group] = defaultdict(Group)
        self._hasty: defaultdict[str, Group] = defaultdict(Group)
        self._votes: Counter[str] = Counter()

    def add(self, tally: ContestTally) -> None:
        for ledger in tally.voters.values():
            self._add([vote.cast for vote in ledger.votes.values() if vote.status is VoteStatus.COUNTED])

    def _add(self, casts: Sequence[VoteCast]) -> None:
        """Add the counted votes of one voter."""
        addresses, minutes = defaultdict[str, list[VoteCast]](list), defaultdict[Minute, list[VoteCast]](list)
        for cast in casts:
            if cast.address is not None:
                addresses[cast.address].append(cast)
            for participant, count in cast.choices:
                self._votes[participant] += count
                minutes[participant, cast.accepted_at // MINUTE_US].append(cast)
        for address, its in addresses.items():
            self._addresses[address].add(its)
        for minute, its in minutes.items():
            self._minutes[minute].add(its, minute[0])
        if _is_at_once(casts):
            for participant in {participant for cast in casts for participant, _ in cast.choices}:
                chosen = [cast for cast in casts if participant in dict(cast.choices)]
                self._hasty[participant].add(chosen, participant)

    def found(self, least: int, most: int) -> list[Pattern]:
        """Return up to `most` patterns of each kind with at least so many votes, the largest first."""
        kinds: dict[str, Iterable[tuple[str, Group]]] = {
            "address": self._addresses.items(),
            "minute": [("", group) for group in self._bursts()],
            "limit within seconds": [("", group) for group in self._hasty.values()],
        }
        return [
            self._pattern(kind, name, group)
            for kind, groups in kinds.items()
            for name, group in nlargest(
                most, (each for each in groups if each[1].votes >= least), lambda each: each[1].votes
            )
        ]

    def _bursts(self) -> Iterator[Group]:
        """Yield the minutes of participants that stand out against the contest's course."""
        of_minute: Counter[int] = Counter()
        for (_, minute), group in self._minutes.items():
            of_minute[minute] += group.votes
        total = self._votes.total()
        for (participant, minute), group in self._minutes.items():
            share = self._votes[participant] / total
            expected = of_minute[minute] * share
            if group.votes - expected > STANDARD_SCORE * sqrt(expected * (1 - share)) > 0:
                yield group

    def _pattern(self, kind: str, name: str, group: Group) -> Pattern:
        [(participant, votes)] = group.participants.most_common(1)
        share = votes / self._votes[participant]
        return Pattern(kind, name, participant, group.votes, group.voters, group.first, group.last, share)


def _is_at_once(casts: Sequence[VoteCast]) -> bool:
    """Return whether several votes of one voter used up a limit within `AT_ONCE_US`."""
    if len(casts) < 2 or not any(0 in (cast.remaining_contest, cast.remaining_participant) for cast in casts):
        return False
    times = [cast.accepted_at for cast in casts]
    return max(times) - min(times) <= AT_ONCE_US
