"""The client's calls without I/O: generators of requests and pauses, which both clients carry out.

A request is sent again until it has a final answer, after growing pauses that differ between clients and are never
shorter than `Retry-After`; at most for the client's patience.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx

from .outcomes import ApiError, NoAnswer, Outcome, Problem, Undecided, json_of, outcome_of, problem_of
from .pending_votes import PendingVote, VoteStore

MOST_ITEMS: Final = 10_000
MOST_BYTES: Final = 8 * 1024 * 1024
"""Limits of one batch."""
SHORTEST_S: Final = 0.5
LONGEST_S: Final = 15.0
"""Bounds of the pause that grows."""
TIMEOUT_S: Final = 10.0
BATCH_TIMEOUT_S: Final = 30.0
JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """A request; its answer is a response, or None if there was none."""

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    content: bytes | None = None
    media_type: str = JSON
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Retried = Callable[[Problem | None], None]
"""Called with the answer, None without one, before a request is sent again."""
Steps = Generator[Ask | Pause, httpx.Response | None, T]
Attempt = Callable[[], Steps[float | None]]
"""Asks once; returns None when done, else the shortest pause in seconds before the next time."""


def path_of(contest: str, *parts: str) -> str:
    return "/".join(["/contests", *(quote(part, safe="") for part in (contest, *parts))])


def pause_after(failures: int, least: float, random: float) -> float:
    """Return the pause after so many failures before this one; `random` is in [0, 1)."""
    return least + min(SHORTEST_S * 2.0 ** min(failures, 30), LONGEST_S) * (0.5 + random / 2)


class Calls:
    """The calls of one client. `clock` measures its patience, in seconds."""

    def __init__(
        self,
        store: VoteStore,
        patience_s: float,
        retried: Retried,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self.store = store
        self._patience_s = patience_s
        self._retried = retried
        self._clock = clock
        self._random = random

    def vote(self, contest: str, body: Mapping[str, Any]) -> Steps[Outcome]:
        """Store a vote, and send it."""
        [vote] = self.store.add([PendingVote.of(contest, body)])
        return (yield from self.cast(vote))

    def cast(self, vote: PendingVote) -> Steps[Outcome]:
        """Send a stored vote until it is answered."""
        outcome: Outcome = Undecided(vote)
        ask = Ask("POST", path_of(vote.contest, "votes"), content=json.dumps(dict(vote.body)).encode())

        def attempt() -> Steps[float | None]:
            nonlocal outcome
            reply = yield ask
            outcome = Undecided(vote) if reply is None else _outcome(vote, reply)
            return self._pause_of([outcome])

        yield from self._repeat(attempt)
        self._forget([outcome])
        return outcome

    def cast_all(self, contest: str, bodies: Iterable[Mapping[str, Any]]) -> Steps[list[Outcome]]:
        """Store and send votes in batches; equal ones are several votes. Outcomes are in their order."""
        outcomes: list[Outcome] = []
        for part in parts(PendingVote.of(contest, body, is_own_action=True) for body in bodies):
            self.store.add(part)
            outcomes += yield from self._cast_part(part)
        return outcomes

    def resume_all(self) -> Steps[list[Outcome]]:
        """Send all stored votes again, with their ids."""
        outcomes: list[Outcome] = []
        by_contest: dict[str, list[PendingVote]] = {}
        for vote in self.store.all():
            by_contest.setdefault(vote.contest, []).append(vote)
        for votes in by_contest.values():
            for part in parts(votes):
                outcomes += yield from self._cast_part(part)
        return outcomes

    def _cast_part(self, votes: Sequence[PendingVote]) -> Steps[list[Outcome]]:
        """Send votes of one contest as a batch, and again what is not decided."""
        outcomes: list[Outcome] = [Undecided(vote) for vote in votes]

        def attempt() -> Steps[float | None]:
            left = [at for at, outcome in enumerate(outcomes) if isinstance(outcome, Undecided)]
            content = b"\n".join(line_of(votes[at]) for at in left)
            path = path_of(votes[0].contest, "votes", "batch")
            reply = yield Ask("POST", path, content=content, media_type=NDJSON, timeout_s=BATCH_TIMEOUT_S)
            for at, outcome in zip(left, _batch_outcomes([votes[at] for at in left], reply), strict=True):
                outcomes[at] = outcome
            self._forget([outcomes[at] for at in left])
            return self._pause_of([outcomes[at] for at in left])

        yield from self._repeat(attempt)
        return outcomes

    def answered(self, ask: Ask) -> Steps[httpx.Response]:
        """Send a request until it has a final answer. Raises `ApiError` and `NoAnswer`."""
        problem: Problem | None = None
        final: httpx.Response | None = None

        def attempt() -> Steps[float | None]:
            nonlocal problem, final
            reply = yield ask
            if reply is not None and reply.is_success and (not reply.content or json_of(reply) is not None):
                final = reply
                return None
            problem = None if reply is None else problem_of(reply)
            return self._pause_after([problem])

        is_done = yield from self._repeat(attempt)
        if final is not None:
            return final
        if is_done and problem is not None:
            raise ApiError(problem)
        raise NoAnswer(problem)

    def read(self, path: str, **params: Any) -> Steps[Any]:
        """Return the JSON of a read; parameters that are None are left out."""
        return (yield from self.answered(Ask("GET", path, _given(params)))).json()

    def remove(self, contest: str, vote_id: str, voter: Mapping[str, object]) -> Steps[str | None]:
        reply = yield from self.answered(Ask("DELETE", path_of(contest, "votes", vote_id), _given(voter)))
        position: str | None = reply.headers.get("tally-position")
        return position

    def report(self, contest: str, source: str, body: Mapping[str, Any]) -> Steps[Any]:
        path = path_of(contest, "vote_sources", source, "counts")
        return (yield from self.answered(Ask("POST", path, content=json.dumps(dict(body)).encode()))).json()

    def _repeat(self, attempt: Attempt) -> Steps[bool]:
        """Repeat an attempt until it is done, or until patience ends: then returns False."""
        give_up_at = self._clock() + self._patience_s
        failures = 0
        while (least := (yield from attempt())) is not None:
            pause = pause_after(failures, least, self._random())
            if self._clock() + pause > give_up_at:
                return False
            yield Pause(pause)
            failures += 1
        return True

    def _pause_of(self, outcomes: Iterable[Outcome]) -> float | None:
        return self._pause_after([outcome.problem for outcome in outcomes if isinstance(outcome, Undecided)])

    def _pause_after(self, problems: Iterable[Problem | None]) -> float | None:
        """Return the shortest pause before asking again, None if that does not help; no answer is no problem."""
        transient = [problem for problem in problems if problem is None or problem.is_transient]
        for problem in transient:
            self._retried(problem)
        return max((0.0 if problem is None else problem.retry_after_s for problem in transient), default=None)

    def _forget(self, outcomes: Iterable[Outcome]) -> None:
        decided = [outcome.vote for outcome in outcomes if not isinstance(outcome, Undecided)]
        if decided:
            self.store.remove(decided)


def _outcome(vote: PendingVote, reply: httpx.Response) -> Outcome:
    position = reply.headers.get("tally-position")
    return outcome_of(vote, reply.status_code, json_of(reply), problem_of(reply), position)


def _batch_outcomes(votes: Sequence[PendingVote], reply: httpx.Response | None) -> list[Outcome]:
    """Return the outcome of each vote; if the batch was refused as a whole, none is decided."""
    if reply is None:
        return [Undecided(vote) for vote in votes]
    body = json_of(reply) if reply.status_code == httpx.codes.OK else None
    results = body.get("results") if isinstance(body, dict) else None
    if not isinstance(results, list) or len(results) != len(votes):
        return [Undecided(vote, problem_of(reply)) for vote in votes]
    position = reply.headers.get("tally-position")
    return [
        outcome_of(vote, result["status"], result, Problem.of(result["status"], result), position)
        for vote, result in zip(votes, results, strict=True)
    ]


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def line_of(vote: PendingVote) -> bytes:
    return json.dumps(dict(vote.body)).encode()


def parts(votes: Iterable[PendingVote]) -> Iterator[list[PendingVote]]:
    """Split votes into batches of at most `MOST_ITEMS` and `MOST_BYTES`."""
    part: list[PendingVote] = []
    size = 0
    for vote in votes:
        length = len(line_of(vote)) + 1
        if part and (len(part) == MOST_ITEMS or size + length > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(vote)
        size += length
    if part:
        yield part
