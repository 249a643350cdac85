"""Collects the responses to the simulated voters, to be compared with the counts."""

import time
from collections import Counter, deque
from dataclasses import dataclass, field

from services.cli.commands.demo.voters import Ballot

WINDOW_S = 10.0
"""Window of the rates and response times on the screen."""
MOST_TIMES = 200_000


@dataclass(frozen=True, slots=True)
class Answers:
    """Numbers of responses, by code if refused or retried, and response times."""

    accepted: int
    replayed: int
    refused: dict[str, int]
    sent_again: dict[str, int]
    p50_ms: float
    p99_ms: float


@dataclass(slots=True)
class AcceptedResults:
    """Responses by kind; `accepted` holds every vote id that was answered with 201 or 200, once."""

    accepted: dict[str, Ballot] = field(default_factory=dict)
    first_answers: int = 0
    replayed: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    in_doubt: dict[str, Ballot] = field(default_factory=dict)
    """Ballots without a final response at the end, by vote id."""
    _times: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_TIMES))
    _recent: deque[tuple[float, float]] = field(default_factory=deque)
    _recent_votes: deque[float] = field(default_factory=deque)

    def record_time(self, seconds: float) -> None:
        """Record the response time of a request."""
        self._times.append(seconds)
        self._recent.append((time.monotonic(), seconds))

    def record_response(self, ballot: Ballot, status: int, code: str) -> bool:
        """Record a final response; returns whether it accepts the vote."""
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

    def record_retry(self, reason: str) -> None:
        """Record that a request has no final response and is retried."""
        self.retries[reason] += 1

    def record_doubt(self, ballot: Ballot) -> None:
        if ballot.vote_id and ballot.vote_id not in self.accepted:
            self.in_doubt[ballot.vote_id] = ballot

    def rate(self) -> float:
        """Return the accepted votes per second, over the last `WINDOW_S`."""
        horizon = time.monotonic() - WINDOW_S
        while self._recent_votes and self._recent_votes[0] < horizon:
            self._recent_votes.popleft()
        if not self._recent_votes:
            return 0.0
        return len(self._recent_votes) / max(1.0, min(WINDOW_S, time.monotonic() - self._recent_votes[0]))

    def recent_times(self) -> tuple[float, float]:
        """Return p50 and p99 of the response times in seconds, over the last `WINDOW_S`."""
        horizon = time.monotonic() - WINDOW_S
        while self._recent and self._recent[0][0] < horizon:
            self._recent.popleft()
        return quantiles([seconds for _, seconds in self._recent])

    def answers(self) -> Answers:
        """Return the summary of all responses."""
        p50, p99 = quantiles(list(self._times))
        refused, again = dict(self.refusals), dict(self.retries)
        return Answers(self.first_answers, self.replayed, refused, again, p50 * 1000, p99 * 1000)


def quantiles(values: list[float]) -> tuple[float, float]:
    if not values:
        return 0.0, 0.0
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
