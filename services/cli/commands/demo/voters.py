"""Simulated voters: most vote normally, some repeat their votes, exceed their allowance or send invalid ones."""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import orjson

REMEMBERED: Final = 500
"""Number of ballots that may be sent again."""
EAGER_VOTERS: Final = 24
SHARED_ADDRESS: Final = "203.0.113.7"


@dataclass(frozen=True, slots=True)
class SimulatedVote:
    """One voter's request. `vote_id` is "" if the response is not attributed to a vote; `body` may be invalid."""

    kind: str
    vote_id: str
    participant: str
    source: str
    count: int
    body: bytes = field(repr=False)


class VoterPopulation:
    """Draws random ballots, the same ones for the same seed; `voters` is the number of signed-in voters."""

    def __init__(self, participants: Sequence[str], voters: int, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._participants = list(participants)
        self._weights = [self._random.uniform(0.5, 2.0) for _ in participants]
        self._voters = voters
        self.ids: set[str] = set()
        """All vote ids drawn so far."""
        self._drawn = 0
        self._recent: list[SimulatedVote] = []
        self._kinds = [make for make, _ in _KINDS]
        self._shares = [share for _, share in _KINDS]

    def draw(self) -> SimulatedVote:
        """Return the next ballot."""
        self._drawn += 1
        self._drift()
        make = self._random.choices(self._kinds, self._shares)[0]
        return make(self)

    def accepted(self, ballot: SimulatedVote) -> None:
        """Remember an accepted ballot, which may be sent again."""
        self._recent.append(ballot)
        if len(self._recent) > 2 * REMEMBERED:
            del self._recent[:REMEMBERED]

    def free(self) -> SimulatedVote:
        voter = self._random.randrange(self._voters)
        return self._vote("free", voter_id=f"voter-{voter}", ip=_address(voter), platform=self._platform())

    def paid(self) -> SimulatedVote:
        fan = self._random.randrange(max(1, self._voters // 4))
        count = self._random.choice((1, 1, 2, 3, 5, 10))
        return self._vote("paid", voter_id=f"voter-{fan}", source="c-paid", count=count)

    def anonymous(self) -> SimulatedVote:
        device = self._random.randrange(self._voters)
        return self._vote("anonymous", anonymous_id=f"device-{device}", platform=self._platform())

    def eager(self) -> SimulatedVote:
        """Return a ballot of a voter who exceeds the allowance: half of them for one favourite, half for all."""
        voter = self._random.randrange(EAGER_VOTERS)
        favourite = self._participants[voter // 2 % len(self._participants)] if voter % 2 else ""
        count = self._random.choice((1, 1, 2))
        return self._vote("eager", participant=favourite, voter_id=f"eager-{voter}", count=count)

    def neighbour(self) -> SimulatedVote:
        voter = self._random.randrange(self._voters)
        return self._vote("neighbour", voter_id=f"neighbour-{voter}", ip=SHARED_ADDRESS)

    def repeat(self) -> SimulatedVote:
        return self._random.choice(self._recent) if self._recent else self.free()

    def reused_id(self) -> SimulatedVote:
        """Return a ballot that reuses the id of an earlier vote with a higher count."""
        if not self._recent:
            return self.free()
        earlier = self._random.choice(self._recent)
        body = orjson.loads(earlier.body) | {"count": earlier.count + 1}
        return SimulatedVote("reused id", "", earlier.participant, earlier.source, 0, orjson.dumps(body))

    def unknown_participant(self) -> SimulatedVote:
        return self._vote("unknown participant", voter_id="voter-0", participant="nobody")

    def paid_anonymous(self) -> SimulatedVote:
        return self._vote("paid anonymous", anonymous_id="device-0", source="c-paid")

    def malformed(self) -> SimulatedVote:
        body = self._random.choice(
            (
                b'{"participant_key": "oops',
                b'{"voter_id": "voter-1"}',
                b'{"participant_key": "p", "voter_id": "v", "anonymous_id": "a"}',
                b'{"participant_key": "p", "voter_id": "v", "count": 0}',
            )
        )
        return SimulatedVote("malformed", "", "", "", 0, body)

    def _vote(
        self, kind: str, *, participant: str = "", source: str = "c-free", count: int = 1, **members: Any
    ) -> SimulatedVote:
        vote_id = f"{kind.replace(' ', '-')}-{self._drawn}"
        chosen = participant or self._random.choices(self._participants, self._weights)[0]
        self.ids.add(vote_id)
        vote = {"vote_id": vote_id, "participant_key": chosen, "source": source, "count": count}
        return SimulatedVote(kind, vote_id, chosen, source, count, orjson.dumps(vote | members))

    def _platform(self) -> str:
        return self._random.choice(("ios", "android", "web"))

    def _drift(self) -> None:
        """Change the participants' popularity at random, so that the lead changes."""
        at = self._random.randrange(len(self._weights))
        self._weights[at] = min(3.0, max(0.3, self._weights[at] * self._random.uniform(0.93, 1.075)))


def _address(voter: int) -> str:
    """Return the voter's own address, from a private range."""
    return f"10.{voter >> 16 & 255}.{voter >> 8 & 255}.{voter & 255}"


_KINDS: Final[tuple[tuple[Callable[[VoterPopulation], SimulatedVote], float], ...]] = (
    (VoterPopulation.free, 46),
    (VoterPopulation.paid, 15),
    (VoterPopulation.anonymous, 16),
    (VoterPopulation.eager, 9),
    (VoterPopulation.neighbour, 3),
    (VoterPopulation.repeat, 6),
    (VoterPopulation.reused_id, 1),
    (VoterPopulation.unknown_participant, 1.5),
    (VoterPopulation.paid_anonymous, 1),
    (VoterPopulation.malformed, 1.5),
)
"""Kinds of ballots and their shares in percent."""


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

    accepted: dict[str, SimulatedVote] = field(default_factory=dict)
    first_answers: int = 0
    replayed: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    in_doubt: dict[str, SimulatedVote] = field(default_factory=dict)
    """Ballots without a final response at the end, by vote id."""
    _times: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_TIMES))
    _recent: deque[tuple[float, float]] = field(default_factory=deque)
    _recent_votes: deque[float] = field(default_factory=deque)

    def record_time(self, seconds: float) -> None:
        """Record the response time of a request."""
        self._times.append(seconds)
        self._recent.append((time.monotonic(), seconds))

    def record_response(self, ballot: SimulatedVote, status: int, code: str) -> bool:
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

    def record_doubt(self, ballot: SimulatedVote) -> None:
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


MOST_IN_FLIGHT: Final = 200
BATCH: Final = 20
BATCH_SHARE: Final = 0.1
"""Share of the votes that one client sends in batches."""
BROKEN_LINE: Final = b'{"participant_key": 7}'
JSON: Final = {"content-type": "application/json"}
NDJSON: Final = {"content-type": "application/x-ndjson"}


class VoterLoad:
    """Sends `rate` votes per second, with exponentially distributed pauses, until stopped."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        contest: str,
        voters: VoterPopulation,
        results: AcceptedResults,
        rate: float,
    ) -> None:
        self._client = client
        self._path = f"/contests/{contest}/votes"
        self._voters = voters
        self._results = results
        self._rate = rate
        self._in_flight: set[asyncio.Task[None]] = set()
        self._give_up_at = float("inf")

    @property
    def waiting(self) -> int:
        """Number of requests without a final response."""
        return len(self._in_flight)

    async def vote_until(self, stop: asyncio.Event) -> None:
        """Send votes until `stop` is set; requests then in flight go on: see `settle`."""
        await asyncio.gather(
            self._arrive(stop, self._rate * (1 - BATCH_SHARE), self._one),
            self._arrive(stop, self._rate * BATCH_SHARE / BATCH, self._batch),
        )

    async def settle(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` for the final responses; ballots without one then count as in doubt."""
        self._give_up_at = time.monotonic() + timeout_s
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=timeout_s + 1)
        await self.leave()

    async def leave(self) -> None:
        """Cancel all requests in flight."""
        for task in self._in_flight:
            task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)

    async def _arrive(self, stop: asyncio.Event, rate: float, act: Any) -> None:
        """Start `act` at random intervals; arrivals missed during an outage are not made up for."""
        due = time.monotonic()
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                due = max(due + random.expovariate(rate), time.monotonic() - 0.2)
                await asyncio.wait({stopped}, timeout=max(0.0, due - time.monotonic()))
                while len(self._in_flight) >= MOST_IN_FLIGHT and not stop.is_set():
                    await asyncio.wait({stopped, *self._in_flight}, return_when=asyncio.FIRST_COMPLETED)
                if not stop.is_set():
                    task = asyncio.create_task(act())
                    self._in_flight.add(task)
                    task.add_done_callback(self._in_flight.discard)
        finally:
            stopped.cancel()

    async def _one(self) -> None:
        await self._cast(self._voters.draw())

    async def _cast(self, ballot: SimulatedVote) -> None:
        try:
            answer = await self._send_until_final(self._path, ballot.body, JSON)
        except asyncio.CancelledError:
            self._results.record_doubt(ballot)
            raise
        if answer is None:
            self._results.record_doubt(ballot)
        else:
            self._record(ballot, answer.status_code, _code(answer))

    async def _batch(self) -> None:
        ballots = [self._voters.draw() for _ in range(BATCH)]
        ballots = [ballot for ballot in ballots if ballot.vote_id]
        lines = [ballot.body for ballot in ballots]
        try:
            answer = await self._send_until_final(f"{self._path}/batch", b"\n".join([*lines, BROKEN_LINE]), NDJSON)
        except asyncio.CancelledError:
            answer = None
        if answer is None or answer.status_code != httpx.codes.OK:
            for ballot in ballots:
                self._results.record_doubt(ballot)
            return
        results = answer.json()["results"]
        self._results.refusals[results.pop()["code"]] += 1
        again = []
        for ballot, result in zip(ballots, results, strict=True):
            if result["status"] >= 500:
                self._results.record_retry(result["code"])
                again.append(ballot)
            else:
                self._record(ballot, result["status"], result.get("code", ""))
        for ballot in again:
            await self._cast(ballot)

    def _record(self, ballot: SimulatedVote, status: int, code: str) -> None:
        if self._results.record_response(ballot, status, code):
            self._voters.accepted(ballot)

    async def _send_until_final(self, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response | None:
        """Send the request, with the same vote ids, until it has a final response; None when the time is up."""
        while True:
            pause_s = 0.5
            began = time.monotonic()
            try:
                answer = await self._client.post(path, content=body, headers=headers)
            except httpx.TransportError:
                self._results.record_retry("no_answer")
            else:
                self._results.record_time(time.monotonic() - began)
                if answer.status_code < 500 and answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
                    return answer
                self._results.record_retry(_code(answer))
                pause_s = _seconds(answer.headers.get("retry-after"), pause_s)
            pause_s *= random.uniform(1.0, 1.5)  # noqa: S311
            if time.monotonic() + pause_s > self._give_up_at:
                return None
            await asyncio.sleep(pause_s)


def _code(answer: httpx.Response) -> str:
    """Return the problem's code, or `http_<status>` without one."""
    if answer.is_success:
        return ""
    try:
        return str(orjson.loads(answer.content)["code"])
    except (ValueError, KeyError, TypeError):
        return f"http_{answer.status_code}"


def _seconds(text: str | None, otherwise: float) -> float:
    try:
        return min(5.0, max(0.1, float(text or otherwise)))
    except ValueError:
        return otherwise
