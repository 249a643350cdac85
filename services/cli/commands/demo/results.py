"""What the simulated voters were told, to be held against what was counted."""

import time
from collections import Counter, deque
from dataclasses import dataclass, field

from services.cli.commands.demo.voters import Ballot

WINDOW_S = 10.0
"""Rates and answer times on the screen are those of the last seconds."""
MOST_TIMES = 200_000


@dataclass(slots=True)
class AcceptedResults:
    """`accepted` holds every vote id that was answered 201 or 200 to anybody, each once."""

    accepted: dict[str, Ballot] = field(default_factory=dict)
    first_answers: int = 0
    replayed: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    in_doubt: dict[str, Ballot] = field(default_factory=dict)
    """Nobody could be told what became of these before the end."""
    _times: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_TIMES))
    _recent: deque[tuple[float, float]] = field(default_factory=deque)
    _recent_votes: deque[float] = field(default_factory=deque)

    def answered(self, seconds: float) -> None:
        """A request was answered, whatever with."""
        self._times.append(seconds)
        self._recent.append((time.monotonic(), seconds))

    def told(self, ballot: Ballot, status: int, code: str) -> bool:
        """A voter's final answer; whether it is that the vote counts."""
        if status not in (200, 201):
            self.refusals[code] += 1
            return False
        if status == 201:
            self.first_answers += 1
        else:
            self.replayed += 1
        self.in_doubt.pop(ballot.vote_id, None)
        self.accepted.setdefault(ballot.vote_id, ballot)
        self._recent_votes.append(time.monotonic())
        return True

    def again(self, reason: str) -> None:
        """No final answer: the same vote id is sent again."""
        self.retries[reason] += 1

    def given_up(self, ballot: Ballot) -> None:
        if ballot.vote_id and ballot.vote_id not in self.accepted:
            self.in_doubt[ballot.vote_id] = ballot

    def rate(self) -> float:
        """Votes accepted a second, lately."""
        horizon = time.monotonic() - WINDOW_S
        while self._recent_votes and self._recent_votes[0] < horizon:
            self._recent_votes.popleft()
        if not self._recent_votes:
            return 0.0
        return len(self._recent_votes) / max(1.0, min(WINDOW_S, time.monotonic() - self._recent_votes[0]))

    def recent_times(self) -> tuple[float, float]:
        """p50 and p99 of the answer times, lately, in seconds."""
        horizon = time.monotonic() - WINDOW_S
        while self._recent and self._recent[0][0] < horizon:
            self._recent.popleft()
        return quantiles([seconds for _, seconds in self._recent])

    def all_times(self) -> tuple[float, float]:
        """p50 and p99 over the whole run."""
        return quantiles(list(self._times))


def quantiles(values: list[float]) -> tuple[float, float]:
    if not values:
        return 0.0, 0.0
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
