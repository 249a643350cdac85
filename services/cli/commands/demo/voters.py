"""Simulated voters: most vote normally, some repeat their votes, exceed their allowance or send invalid ones."""

import asyncio
import math
import random
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Self, cast

import httpx

from libs.client import Accepted, AsyncClient, Problem, Refused, Undecided, VoteMembers
from libs.concurrency.tasks import end_tasks

KINDS: Final = {
    "free": 46,
    "paid": 15,
    "anonymous": 16,
    "eager": 9,
    "neighbour": 3,
    "repeat": 6,
    "reused id": 1,
    "unknown participant": 1.5,
    "paid anonymous": 1,
    "malformed": 1.5,
}
"""Kinds of votes and their shares in percent."""
MALFORMED: Final[tuple[VoteMembers, ...]] = (
    {"voter_id": "voter-1"},
    {"participant_key": "p", "voter_id": "v", "anonymous_id": "a"},
    {"participant_key": "p", "voter_id": "v", "count": 0},
)
REMEMBERED: Final = 1_000
"""Number of votes that may be sent again."""
EAGER_VOTERS: Final = 24
SHARED_ADDRESS: Final = "203.0.113.7"


@dataclass(frozen=True, slots=True)
class SimulatedVote:
    """One voter's request. `vote_id` is "" if no vote is expected of it; `members` may be invalid."""

    vote_id: str
    participant: str
    source: str
    count: int
    members: VoteMembers = field(repr=False)


class VoterPopulation:
    """Draws random votes, the same ones for the same seed; `voters` is the number of signed-in voters."""

    def __init__(self, participants: Sequence[str], voters: int, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._participants = list(participants)
        self._weights = [self._random.uniform(0.5, 2.0) for _ in participants]
        self._voters = voters
        self.ids: set[str] = set()
        """All vote ids drawn so far."""
        self._drawn = 0
        self.accepted: deque[SimulatedVote] = deque(maxlen=REMEMBERED)
        """Recently accepted votes, which may be sent again."""

    def draw(self) -> SimulatedVote:
        """Return the next vote."""
        self._drawn += 1
        self._drift()
        pick, voter = self._random.choice, self._random.randrange(self._voters)
        kind = self._random.choices(list(KINDS), list(KINDS.values()))[0]
        platform = pick(("ios", "android", "web"))
        match kind:
            case "repeat" if self.accepted:
                return pick(self.accepted)
            case "reused id" if self.accepted:
                earlier = pick(self.accepted)
                other: VoteMembers = {**earlier.members, "count": earlier.count + 1}
                return SimulatedVote("", earlier.participant, earlier.source, 0, other)
            case "paid":
                fan, count = self._random.randrange(max(1, self._voters // 4)), pick((1, 1, 2, 3, 5, 10))
                return self._vote(kind, voter_id=f"voter-{fan}", source="c-paid", count=count)
            case "anonymous":
                return self._vote(kind, anonymous_id=f"device-{voter}", platform=platform)
            case "eager":  # exceeds the allowance: half of them for one favourite, half for all
                eager = self._random.randrange(EAGER_VOTERS)
                favourite = self._participants[eager // 2 % len(self._participants)] if eager % 2 else ""
                return self._vote(kind, participant=favourite, voter_id=f"eager-{eager}", count=pick((1, 1, 2)))
            case "neighbour":
                return self._vote(kind, voter_id=f"neighbour-{voter}", ip=SHARED_ADDRESS)
            case "unknown participant":
                return self._vote(kind, voter_id="voter-0", participant="nobody")
            case "paid anonymous":
                return self._vote(kind, anonymous_id="device-0", source="c-paid")
            case "malformed":
                return SimulatedVote("", "", "", 0, pick(MALFORMED))
        return self._vote("free", voter_id=f"voter-{voter}", ip=_address(voter), platform=platform)

    def _vote(
        self, kind: str, *, participant: str = "", source: str = "c-free", count: int = 1, **members: Any
    ) -> SimulatedVote:
        vote_id = f"{kind.replace(' ', '-')}-{self._drawn}"
        chosen = participant or self._random.choices(self._participants, self._weights)[0]
        self.ids.add(vote_id)
        vote = VoteMembers(vote_id=vote_id, participant_key=chosen, source=source, count=count)
        return SimulatedVote(vote_id, chosen, source, count, cast(VoteMembers, vote | members))

    def _drift(self) -> None:
        """Change the participants' popularity at random, so that the lead changes."""
        at = self._random.randrange(len(self._weights))
        self._weights[at] = min(3.0, max(0.3, self._weights[at] * self._random.uniform(0.93, 1.075)))


def _address(voter: int) -> str:
    """Return the voter's own address, from a private range."""
    return f"10.{voter >> 16 & 255}.{voter >> 8 & 255}.{voter & 255}"


RECENT: Final = 1_000
"""Responses and votes of the times and rates on the screen."""
MOST_TIMES: Final = 200_000


@dataclass(slots=True)
class AcceptedResults:
    """Responses by kind; `accepted` holds every vote id that was answered with 201 or 200, once."""

    accepted: dict[str, SimulatedVote] = field(default_factory=dict)
    first_answers: int = 0
    replayed: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    in_doubt: dict[str, SimulatedVote] = field(default_factory=dict)
    """Votes without a final response, by vote id."""
    times: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_TIMES))
    """Response times in seconds."""
    _votes: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    """Times of the latest acceptances."""

    def record_outcome(self, vote: SimulatedVote, outcome: Accepted | Refused) -> None:
        self.in_doubt.pop(vote.vote_id, None)
        if isinstance(outcome, Refused):
            self.refusals[outcome.code] += 1
            return
        self.first_answers += not outcome.is_replayed
        self.replayed += outcome.is_replayed
        self.accepted.setdefault(vote.vote_id, vote)
        self._votes.append(time.monotonic())

    def record_retry(self, problem: Problem | None) -> None:
        self.retries["no_answer" if problem is None else problem.code or f"http_{problem.status}"] += 1

    def record_doubt(self, vote: SimulatedVote) -> None:
        if vote.vote_id and vote.vote_id not in self.accepted:
            self.in_doubt[vote.vote_id] = vote

    def rate(self) -> float:
        """Return the accepted votes per second, of the latest `RECENT`."""
        return len(self._votes) / max(1.0, time.monotonic() - self._votes[0]) if self._votes else 0.0

    def recent_times(self) -> tuple[float, float]:
        """Return p50 and p99 of the latest `RECENT` response times, in seconds."""
        return quantiles(islice(reversed(self.times), RECENT))

    def summary(self) -> dict[str, Any]:
        """Return numbers of responses, by code if refused or retried, and response times."""
        p50, p99 = quantiles(self.times)
        return {
            "accepted": self.first_answers,
            "replayed": self.replayed,
            "refused": self.refusals,
            "sent_again": self.retries,
            "p50_ms": round(p50 * 1000, 3),
            "p99_ms": round(p99 * 1000, 3),
        }


def quantiles(values: Iterable[float]) -> tuple[float, float]:
    ordered = sorted(values) or [0.0]
    return ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]


MOST_IN_FLIGHT: Final = 200


class TimedTransport(httpx.AsyncHTTPTransport):
    """Measures the time of each response, in seconds."""

    def __init__(self, times: deque[float]) -> None:
        super().__init__(limits=httpx.Limits(max_connections=MOST_IN_FLIGHT + 20, max_keepalive_connections=50))
        self._times = times

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        began = time.monotonic()
        response = await super().handle_async_request(request)
        self._times.append(time.monotonic() - began)
        return response


def voters_client(url: str, key: str, results: AcceptedResults) -> AsyncClient:
    """Return the client of all voters: it sends a vote until it is answered."""
    transport = TimedTransport(results.times)
    return AsyncClient(url, key, patience_s=math.inf, retried=results.record_retry, transport=transport)


@dataclass(slots=True)
class VoterLoad:
    """Sends `rate` votes per second, with exponentially distributed pauses, while its context is open."""

    client: AsyncClient
    contest: str
    voters: VoterPopulation
    results: AcceptedResults
    rate: float
    _arrivals: asyncio.Task[None] = field(init=False)
    _in_flight: set[asyncio.Task[None]] = field(default_factory=set)
    _sent: int = 0
    _began: float = field(default_factory=time.monotonic)
    _ended: float | None = None

    @property
    def sent_per_s(self) -> float:
        """Votes per second that were sent for the first time, until the voting ended."""
        return self._sent / max(0.1, (self._ended or time.monotonic()) - self._began)

    async def __aenter__(self) -> Self:
        self._arrivals = asyncio.create_task(self._arrive())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cancel all requests in flight."""
        await end_tasks([self._arrivals, *self._in_flight])

    async def settle(self, timeout_s: float) -> None:
        """End the voting and wait at most `timeout_s` for the final responses; see `AcceptedResults.in_doubt`."""
        self._arrivals.cancel()
        self._ended = time.monotonic()
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=timeout_s)

    async def _arrive(self) -> None:
        """Draw and send votes at random intervals; those missed during an outage are not made up for."""
        due = time.monotonic()
        while True:
            due = max(due + random.expovariate(self.rate), time.monotonic() - 0.2)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            while len(self._in_flight) >= MOST_IN_FLIGHT:
                await asyncio.wait(self._in_flight, return_when=asyncio.FIRST_COMPLETED)
            self._sent += 1
            task = asyncio.create_task(self._cast(self.voters.draw()))
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)

    async def _cast(self, vote: SimulatedVote) -> None:
        """Cast the vote; until it is answered, or if cancelled, it is in doubt."""
        self.results.record_doubt(vote)
        outcome = await self.client.vote(self.contest, **vote.members)
        if isinstance(outcome, Undecided):
            return
        self.results.record_outcome(vote, outcome)
        if isinstance(outcome, Accepted):
            self.voters.accepted.append(vote)
