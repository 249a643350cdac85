"""Voters of every kind, each seat by a random stream of its own, and readers of the counts that they change."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, Final

import httpx

from tests.campaign.oracle import ENDED, IP_LIMIT, LIMITS, Oracle, Poll, Rule, Vote
from tests.simulation.faults import Streams
from tests.support.clients.voting import Api, code, hours_from_now, running
from tests.support.eventually import DEADLINE_S

SEATS: Final = 20
"""Voters who vote at the same time."""
RETRY_S: Final = 0.3
PARTICIPANTS: Final = 3
VOTES_OF_A_VOTER: Final = 6
BATCH: Final = 8
MANY_RETRIES: Final = 100
MOST: Final = 4
FEW: Final = 2
COOLDOWN_S: Final = 20
RENEWED: Final = 40
"""Votes of a voter whose allowance begins afresh again and again; one page holds them."""
OF_AN_ADDRESS: Final = 3
"""Votes for a participant from one address."""


async def open_polls(client: httpx.AsyncClient) -> dict[str, Poll]:
    """Create a contest of each kind."""
    free, end = {"max_participant": MOST, "max_contest": MOST}, hours_from_now(24)
    positions = [{"id": "1", "votes": 2}, {"id": "2"}]
    rating, ordering = {"max_rating": 5, "max_per_participant": 1}, {"positions": positions}
    few = {"max_participant": FEW, "max_contest": FEW}
    plain = running(free=free, end=end)
    kinds: dict[str, tuple[int, frozenset[str], dict[str, Any]]] = {
        "plain": (MOST, LIMITS, plain),
        "batches": (MOST, LIMITS, plain),
        "changing": (MOST, LIMITS | ENDED, plain),
        "ratings": (PARTICIPANTS, frozenset(), running(rating=rating, end=end) | {"contest_type": "rating"}),
        "ballots": (1, frozenset(), running(ordering=ordering, end=end) | {"contest_type": "ordering"}),
        "paid": (FEW, LIMITS, running(paid=few, end=end)),
        "renewing": (FEW, LIMITS, running(free=few, renew_free_vote={"cooldown": COOLDOWN_S}, end=end)),
        "addresses": (
            MOST,
            LIMITS | {IP_LIMIT},
            running(free=free, ip_restriction_per_participant=OF_AN_ADDRESS, end=end),
        ),
    }
    polls = {name: await open_poll(client, name, *kind) for name, kind in kinds.items()}
    polls["renewing"].cooldown_s = COOLDOWN_S
    polls["addresses"].address_limit = OF_AN_ADDRESS
    return polls


async def open_poll(
    client: httpx.AsyncClient,
    name: str,
    most: int,
    refusals: frozenset[str],
    body: dict[str, Any],
    deadline_s: float = DEADLINE_S,
) -> Poll:
    contest = await Api(client, deadline_s).contest(PARTICIPANTS, body)
    return Poll(name, contest, [Rule(most, time.monotonic(), time.monotonic())], refusals)


@dataclass
class Crowd:
    """All who vote, until `stop`. `rate` is votes a second, of all seats, on a machine that keeps up."""

    client: httpx.AsyncClient
    oracle: Oracle
    polls: Mapping[str, Poll]
    streams: Streams
    rate: float
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    last_done: dict[int, float] = field(default_factory=dict)
    """By seat, the time at which the last request that was answered for good was first sent."""
    later: list[Poll] = field(default_factory=list)
    """Contests of topics that were created meanwhile, where plain votes go as well."""

    async def run(self) -> None:
        async with asyncio.TaskGroup() as seats:
            for number in range(SEATS):
                seat = Seat(self, number, self.streams[f"seat {number}"])
                seats.create_task(seat.vote_until_stopped())

    async def insist(
        self, seat: int, send: Callable[[], Awaitable[httpx.Response]], votes: Sequence[Vote] = ()
    ) -> httpx.Response:
        """Send `votes` again until the answer is final, also after `stop`: nothing stays in doubt."""
        began = time.monotonic()
        while True:
            answer = await self.send_once(send, votes)
            if answer is not None and answer.status_code != 503:
                self.last_done[seat] = began
                self.oracle.waited(seat, began, votes[0] if len(votes) == 1 else None)
                return answer
            self.oracle.doubt()
            await asyncio.sleep(RETRY_S)

    async def send_once(
        self, send: Callable[[], Awaitable[httpx.Response]], votes: Sequence[Vote] = ()
    ) -> httpx.Response | None:
        """Return the answer; None if it was lost: the request may still be on its way."""
        for vote in votes:
            vote.unanswered += 1
        try:
            answer = await send()
        except (httpx.TransportError, TimeoutError):
            return None
        for vote in votes:
            vote.unanswered -= 1
        return answer

    async def demand(
        self,
        seat: int,
        method: str,
        path: str,
        *,
        status: int = 200,
        client: httpx.AsyncClient | None = None,
        **options: Any,
    ) -> httpx.Response:
        """Send a request again until the answer is final; another one than `status` is untrue."""
        asked = client or self.client
        answer = await self.insist(seat, lambda: asked.request(method, path, **options))
        if answer.status_code != status:
            what = f"{method} {path} {options.get('json', '')}"
            self.oracle.untrue(f"{what} is answered {answer.status_code} {answer.text}")
        return answer

    async def post(self, poll: Poll, vote: Vote) -> httpx.Response:
        return await self.client.post(f"{poll.contest.path}/votes", json=_content(vote))

    async def cast(self, seat: int, poll: Poll, vote: Vote) -> None:
        sent_at = time.monotonic()
        answer = await self.insist(seat, lambda: self.post(poll, vote), [vote])
        self.oracle.answered(poll, vote, sent_at, answer.status_code, answer.json())


@dataclass
class Seat:
    """One voter after the other, with a request at a time; some requests are sent twice at once, or hung up."""

    crowd: Crowd
    number: int
    rng: Random
    _names: dict[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)
    _requests: int = 0
    _renewed: int = 0

    async def vote_until_stopped(self) -> None:
        kinds: list[tuple[int, Callable[[], Coroutine[Any, Any, None]]]] = [
            (8, self.plain),
            (3, self.rate),
            (3, self.ballot),
            (1, self.batch),
            (5, self.changing),
            (2, self.paid),
            (3, self.renewing),
            (1, self.from_one_address),
        ]
        weights, acts = [weight for weight, _ in kinds], [act for _, act in kinds]
        pause_s = SEATS / self.crowd.rate
        while not self.crowd.stop.is_set():
            [act] = self.rng.choices(acts, weights)
            await asyncio.gather(act(), asyncio.sleep(pause_s * self.rng.uniform(0.5, 1.5)))

    async def plain(self) -> None:
        poll = self.rng.choice([self.crowd.polls["plain"], *self.crowd.later])
        vote = await self._vote(poll, self._for_one(poll))
        if vote.acceptance is not None:
            chance = self.rng.random()
            if chance < 0.2:
                await self._remove(poll, vote)
            elif chance < 0.25:
                await self._send_other_content(poll, vote)

    async def changing(self) -> None:
        poll = self.crowd.polls["changing"]
        await self._vote(poll, self._for_one(poll))

    async def paid(self) -> None:
        poll = self.crowd.polls["paid"]
        await self._vote(poll, self._for_one(poll) | {"source": "c-paid"})

    async def renewing(self) -> None:
        """Votes of a voter who is refused at times, and may vote again after a while."""
        poll = self.crowd.polls["renewing"]
        voter = f"voter {self.number}.{self._renewed // RENEWED}"
        self._renewed += 1
        await self._vote(poll, self._for_one(poll), voter=voter)

    async def from_one_address(self) -> None:
        """Votes of several voters for one participant from one address: some at once, then another one."""
        poll, number = self.crowd.polls["addresses"], next(self._numbers)
        body = self._for_one(poll) | {"ip": f"10.{self.number}.{number // 250 % 250}.{number % 250 + 1}"}
        names = [f"neighbour {self.number}.{number}.{each}" for each in range(OF_AN_ADDRESS + 2)]
        votes = [self._new(poll, name, body) for name in names]
        await asyncio.gather(*(self._cast(poll, vote) for vote in votes[:-1]))
        await self._cast(poll, votes[-1])

    async def rate(self) -> None:
        poll = self.crowd.polls["ratings"]
        body = self._for_one(poll)
        rating = {"value": self.rng.randrange(6), "sub_ratings": {}}
        await self._vote(poll, body | {"rating": rating}, slot=body["participant_key"])

    async def ballot(self) -> None:
        poll = self.crowd.polls["ballots"]
        first, second = self.rng.sample(poll.contest.participants, 2)
        await self._vote(poll, {"positions": {"1": first, "2": second}}, slot="ballot")

    async def batch(self) -> None:
        """Votes of two voters over their limits, one of them twice, in one request that is sent until decided."""
        poll = self.crowd.polls["batches"]
        votes = [self._new(poll, self._voter(poll), self._for_one(poll)) for _ in range(BATCH)]
        votes.append(votes[0])
        items = [_content(vote) for vote in votes]
        path, is_decided = f"{poll.contest.path}/votes/batch", False
        while not is_decided:
            sent_at = time.monotonic()
            answer = await self.crowd.insist(
                self.number, lambda: self.crowd.client.post(path, json={"votes": items}), votes
            )
            results = answer.json().get("results", ())
            if answer.status_code != 200 or len(results) != len(items):
                self.crowd.oracle.untrue(f"a batch is answered {answer.status_code} {answer.text}")
                return
            answers = list(zip(votes, results, strict=True))
            for vote, one in answers:
                if one["status"] == 503:  # also one that was refused before, and is sent again: it may hold now
                    vote.refusal = None
            decided = [(vote, one) for vote, one in answers if one["status"] != 503]
            for vote, one in decided:
                self.crowd.oracle.answered(poll, vote, sent_at, one["status"], one)
            is_decided = len(decided) == len(votes)
            if not is_decided:
                self.crowd.oracle.doubt()
                await asyncio.sleep(RETRY_S)

    def _new(self, poll: Poll, voter: str, body: dict[str, Any], slot: str = "") -> Vote:
        self._requests += 1
        vote_id = f"{self.number}.{self._requests}"
        return self.crowd.oracle.vote(poll, voter, slot or vote_id, vote_id, body)

    def _voter(self, poll: Poll) -> str:
        """Return the present voter of this seat; the next one after some votes or a refusal."""
        name = self._names.get(poll.name)
        votes = poll.votes.get(name or "", [])
        if name is None or len(votes) >= VOTES_OF_A_VOTER or any(vote.refusal for vote in votes):
            name = self._names[poll.name] = f"voter {self.number}.{next(self._numbers)}"
        return name

    def _for_one(self, poll: Poll) -> dict[str, Any]:
        return {"participant_key": self.rng.choice(poll.contest.participants)}

    async def _vote(self, poll: Poll, body: dict[str, Any], *, voter: str = "", slot: str = "") -> Vote:
        vote = self._new(poll, voter or self._voter(poll), body, slot)
        await self._cast_somehow(poll, vote)
        return vote

    async def _cast_somehow(self, poll: Poll, vote: Vote) -> None:
        chance, hang_up_s = self.rng.random(), self.rng.choice([0.002, 0.01, 0.05])
        if chance < 0.06:
            await self._hang_up(poll, vote, hang_up_s)
            if self.rng.random() < 0.5:
                await self._cast(poll, vote)
        elif chance < 0.18:
            await asyncio.gather(self._cast(poll, vote), self._cast(poll, vote))
        elif chance < 0.181:
            await asyncio.gather(*(self._cast(poll, vote) for _ in range(MANY_RETRIES)))
        else:
            await self._cast(poll, vote)
            if chance > 0.92:
                await self._cast(poll, vote)

    async def _cast(self, poll: Poll, vote: Vote) -> None:
        await self.crowd.cast(self.number, poll, vote)

    async def _hang_up(self, poll: Poll, vote: Vote, after_s: float) -> None:
        sent_at = time.monotonic()

        async def send() -> httpx.Response:
            async with asyncio.timeout(after_s):
                return await self.crowd.post(poll, vote)

        answer = await self.crowd.send_once(send, [vote])
        if answer is not None and answer.status_code != 503:
            self.crowd.oracle.answered(poll, vote, sent_at, answer.status_code, answer.json())

    async def _remove(self, poll: Poll, vote: Vote) -> None:
        vote.removal = "asked"
        answer = await self.crowd.insist(self.number, lambda: poll.contest.remove(vote.vote_id, vote.voter))
        if answer.status_code == 204:
            vote.removal = "removed"
        elif code(answer) != (403, "vote_removal_not_allowed"):  # as of a vote that an operator has voided
            self.crowd.oracle.untrue(f"removing {vote.vote_id} is answered {answer.status_code} {answer.text}")

    async def _send_other_content(self, poll: Poll, vote: Vote) -> None:
        """Send another vote under an accepted vote's id."""
        keys = poll.contest.participants
        other = keys[keys.index(vote.body["participant_key"]) - 1]
        content = _content(vote) | {"participant_key": other}
        answer = await self.crowd.insist(
            self.number, lambda: self.crowd.client.post(f"{poll.contest.path}/votes", json=content)
        )
        if code(answer) != (422, "idempotency_key_reused"):
            self.crowd.oracle.untrue(f"a used id with other content is answered {code(answer)}")


def _content(vote: Vote) -> dict[str, Any]:
    return {"vote_id": vote.vote_id, "voter_id": vote.voter, **vote.body}
