"""Votes of one voter in one request: reserved together, decided and recorded in their order."""

import asyncio
import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from libs.contracts.topics import VotesLog
from libs.tally.contest import MILLION, Limits
from libs.tally.errors import LimitReached
from libs.tally.reservations import Answer, GateClosed, Request, Stale
from libs.tally.vote_commands import CastVote
from libs.views.votes.address_counters import AddressCounters
from libs.voting.batching import CALL_REQUESTS, ReservationBatcher
from libs.voting.protocol.effects import AwaitGate, Reserve, Steps
from libs.voting.protocol.shared_steps import Accepted
from libs.voting.protocol_driver import Driver
from libs.voting.protocol_run import ENDED, MOST_TOGETHER, QUEUED, SENT, Run
from libs.voting.service import VotingService
from tests.libs.views.lua_ledger import request_of
from tests.libs.views.partition import Partition
from tests.libs.voting.conftest import Counted, Log, Serve, never_read
from tests.libs.voting.protocol.steps import granted
from tests.support.builders import a_contest, a_rating, a_vote
from tests.support.eventually import eventually

LIMIT = 30
CONTEST = a_contest(free=Limits(LIMIT, -1))


@pytest.fixture
async def service(valkey: Counted, log: Log, serve: Serve) -> VotingService:
    service = serve(CONTEST)
    await service.cast("account", [a_vote(voter="first")])  # puts the configuration in force
    log.events.clear()
    valkey.calls.clear()
    return service


def votes(voter: str, count: int) -> list[CastVote]:
    return [a_vote(voter=voter, vote_id=str(number)) for number in range(count)]


def recorded(log: Log) -> list[str]:
    return [event.vote_id for event in log.events]  # type: ignore[union-attr]


async def test_they_share_a_call(service: VotingService, valkey: Counted, log: Log) -> None:
    outcomes = await service.cast("account", votes("voter", 5))
    assert {type(outcome) for outcome in outcomes} == {Accepted}
    assert valkey.calls == {"votes_reserve": 1, "votes_confirm": 1}
    assert recorded(log) == [*"01234"]


async def test_the_first_of_many_are_the_ones_within_the_limit(
    service: VotingService, valkey: Counted, log: Log
) -> None:
    """Up to 16 of them share each call."""
    assert LIMIT > MOST_TOGETHER
    outcomes = await service.cast("account", votes("voter", LIMIT + 20))
    assert [type(outcome) for outcome in outcomes] == [Accepted] * LIMIT + [LimitReached] * 20
    assert recorded(log) == [str(number) for number in range(LIMIT)]
    assert valkey.calls["votes_reserve"] == -(-(LIMIT + 20) // MOST_TOGETHER)


async def test_one_that_uses_an_address_is_recorded_before_the_next_one(serve: Serve, log: Log) -> None:
    """Its answer takes a step more."""
    service = serve(a_contest(contest_type="rating", ip_restriction_per_participant=30))
    await service.cast("account", [a_rating("b", MILLION, voter="first")])  # puts the configuration in force
    first = a_rating("a", MILLION, vote_id="first", address="home")
    await service.cast("account", [first, a_rating("a", 2 * MILLION, vote_id="then")])
    assert recorded(log)[1:] == ["first", "then"]


async def test_a_request_leaves_nothing_to_the_garbage_collector(service: VotingService) -> None:
    """A collection of what thousands of votes leave stops a gateway for half a second."""

    def left() -> list[object]:
        return [each for each in gc.get_objects() if isinstance(each, Accepted | Run)]

    commands = votes("voter", 3)
    gc.collect()
    before = left()  # of other tests
    gc.disable()
    try:
        await service.cast("account", commands)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not [each for each in left() if not any(each is other for other in before)]
    finally:
        gc.enable()


async def test_no_call_ends_between_them(partition: Partition) -> None:
    """The last one is decided by the first call, which has no room for it."""
    await partition.grant(a_vote(voter="first"))
    calls: list[int] = []

    async def reserve_together(requests: Any) -> Any:
        calls.append(sum(len(its) for _, its in requests))
        return await type(partition.views).reserve_together(partition.views, requests)

    partition.views.reserve_together = reserve_together  # type: ignore[method-assign]
    loop, reservations = asyncio.get_running_loop(), ReservationBatcher(partition.views)
    answers = [loop.create_future() for _ in range(CALL_REQUESTS + 1)]
    for number, answer in enumerate(answers):
        request, is_last = request_of(a_contest(), a_vote(voter=f"v{number}")), number == CALL_REQUESTS
        reservations.reserve(0, request, loop.time() + 60, answer.set_result, joins=is_last)
    await asyncio.wait_for(asyncio.gather(*answers), 60)
    assert calls == [CALL_REQUESTS + 1]


@pytest.fixture
def driver(partition: Partition, valkey: Counted, namespace: str, log: Log, service: VotingService) -> Driver:
    addresses = AddressCounters(valkey, namespace)
    return Driver(VotesLog(namespace, 1), partition.views, addresses, service.contests, log, never_read)


def run_both(driver: Driver, first: Steps[None], second: Steps[None]) -> "asyncio.Future[None]":
    """Run the steps of two votes, the second `after` the first; ended with the second."""
    ended = asyncio.get_running_loop().create_future()
    one, other = votes("voter", 2)
    before = driver.run(first, "account", one, 0, lambda _: None)
    driver.run(second, "account", other, 0, ended.set_result, before)
    return ended


@pytest.mark.parametrize(
    ("answer", "stage"),
    [
        pytest.param(granted(incarnation=1), SENT, id="granted as the one before"),
        pytest.param(granted(incarnation=2), ENDED, id="granted under the next fence"),
        pytest.param(GateClosed(), ENDED, id="gate closed"),
        pytest.param(Stale(None, 1), ENDED, id="stale"),
    ],
)
async def test_an_answer_waits_for_the_one_before_it(answer: Answer, stage: int) -> None:
    """A vote that was sent under another fence may have to be recorded again."""
    before, run, replies = *a_pair(), list[object]()
    run.reply = replies.append
    run.take_answer(answer)
    assert not replies
    before.incarnation = 1
    for reached in (SENT, ENDED):
        before.note(reached)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert replies == ([answer] if reached >= stage else [])


@pytest.mark.parametrize("gave_up", [False, True])
async def test_one_has_no_time_left_after_one_that_gave_up(gave_up: bool) -> None:
    """So a request of many votes does not wait for each of them."""
    before, run = a_pair()
    deadline, before.gave_up = run.gate_deadline, gave_up
    run.then(ENDED, lambda: None)
    before.note(ENDED)
    await asyncio.sleep(0)
    assert (run.gate_deadline == deadline) == gave_up


def a_pair() -> tuple[Run, Run]:
    """Two votes of a voter, the second after the first, which have been queued together."""
    loop, runs = asyncio.get_running_loop(), list[Run]()
    for vote in votes("voter", 2):
        run = Run(iter(()), "account", vote, 0, loop, lambda _: None, runs[-1] if runs else None)  # type: ignore[arg-type]
        run.queue()
        run.note(QUEUED)
        runs.append(run)
    return runs[0], runs[1]


def request(contest: Any, vote_id: str) -> Request:
    return request_of(contest, a_vote(vote_id=vote_id))


async def test_an_undecided_one_goes_on_when_the_one_before_it_is_sent(
    partition: Partition, driver: Driver
) -> None:
    fence = await partition.shut()
    happened: list[str] = []

    def first() -> Steps[None]:
        assert (yield Reserve(request(CONTEST, "1"))) == GateClosed()
        happened.append("first undecided")
        yield AwaitGate(None)
        happened.append("first ended")

    def second() -> Steps[None]:
        assert (yield Reserve(request(CONTEST, "2"))) == GateClosed()
        happened.append("second undecided")

    ended = run_both(driver, first(), second())
    await eventually(lambda: happened)
    await partition.fold(fence)
    await asyncio.wait_for(ended, 60)
    assert happened == ["first undecided", "first ended", "second undecided"]


async def test_one_waits_for_the_one_before_it_if_that_asks_for_something_else_first(driver: Driver) -> None:
    happened: list[str] = []

    def steps(name: str, effect: Callable[[], Any]) -> Steps[None]:
        happened.append(name)
        yield effect()
        happened.append(f"{name} ended")

    first = steps("first", partial(AwaitGate, None))
    second = steps("second", lambda: Reserve(request(CONTEST, "2")))
    await asyncio.wait_for(run_both(driver, first, second), 60)
    assert happened == ["first", "first ended", "second", "second ended"]
