"""Votes of one voter in one request: reserved together, decided and recorded in their order."""

import asyncio
import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from libs.contracts.topics import VotesLog
from libs.tally.contest import MILLION, Limits
from libs.tally.errors import LimitReached, ViewsUnavailable
from libs.tally.reservations import GateClosed, Request, Stale
from libs.tally.vote_commands import CastVote
from libs.views.votes.address_counters import AddressCounters
from libs.voting.group_commit import MOST_TOGETHER
from libs.voting.group_queue import GROUP_VOTES, GroupQueue
from libs.voting.protocol.effects import AwaitGate, GiveAddress, ReadCast, Reserve, Steps
from libs.voting.protocol.shared_steps import Accepted
from libs.voting.protocol_driver import Driver
from libs.voting.protocol_run import Run
from libs.voting.service import VotingService
from tests.libs.views.lua_ledger import request_of
from tests.libs.views.partition import Partition
from tests.libs.voting.conftest import Counted, Log, Serve, never_read
from tests.support.builders.contests import a_contest, a_rating, a_vote
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


async def test_no_call_ends_between_them(service: VotingService, valkey: Counted, log: Log) -> None:
    """The last ones are decided by the first call, which has no room for them."""
    casting = [service.cast("account", [a_vote(voter=f"v{number}")]) for number in range(GROUP_VOTES - 1)]
    *_, last = await asyncio.gather(*casting, service.cast("account", votes("voter", 3)))
    assert {type(outcome) for outcome in last} == {Accepted}
    assert valkey.calls["votes_reserve"] == 1
    assert [vote_id for vote_id in recorded(log) if vote_id in ("0", "1", "2")] == [*"012"]


async def test_they_have_one_deadline(service: VotingService, partition: Partition, log: Log) -> None:
    """Otherwise the first could be given up, and the next one reserved: a retry of the first would replace it."""
    deadlines: list[list[float]] = []
    take_group = GroupQueue.add

    def add(queue: GroupQueue, run: Run) -> None:
        deadlines.append([run.reserve_deadline, run.settle_deadline, run.gate_deadline])
        take_group(queue, run)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(GroupQueue, "add", add)
        await service.cast("account", votes("voter", 3))
    assert len(deadlines) == 3
    assert deadlines[0] == deadlines[1] == deadlines[2]


@pytest.fixture
def driver(partition: Partition, valkey: Counted, namespace: str, log: Log, service: VotingService) -> Driver:
    addresses = AddressCounters(valkey, namespace)
    return Driver(VotesLog(namespace, 1), partition.views, addresses, service.contests, log, never_read)


def run_both(driver: Driver, first: Steps[None], second: Steps[None]) -> "asyncio.Future[None]":
    """Run the steps of two votes of a request; ended with the second."""
    ended = asyncio.get_running_loop().create_future()
    one, other = votes("voter", 2)
    before = driver.new_run(first, "account", one, 0, lambda _: None)
    driver.start([before, driver.new_run(second, "account", other, 0, ended.set_result)])
    return ended


@pytest.mark.parametrize("gave_up", [False, True])
async def test_one_has_no_time_left_after_one_that_gave_up(driver: Driver, gave_up: bool) -> None:
    """So a request of many votes does not wait for each of them."""
    loop, ended = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

    def first() -> Steps[object]:
        yield GiveAddress("", ())
        return ViewsUnavailable("no answer") if gave_up else None

    def second() -> Steps[bool]:
        yield GiveAddress("", ())
        return run.gate_deadline > loop.time()

    one, other = votes("voter", 2)
    before = driver.new_run(first(), "account", one, 0, lambda _: None)
    run = driver.new_run(second(), "account", other, 0, ended.set_result)
    run.gate_deadline = 0.0
    driver.start([before, run])
    assert await asyncio.wait_for(ended, 60) == (not gave_up)


def request(contest: Any, vote_id: str) -> Request:
    return request_of(contest, a_vote(vote_id=vote_id))


async def test_an_undecided_one_is_reserved_again_when_the_one_before_it_has_ended(
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
        answer = yield Reserve(request(CONTEST, "2"))
        assert isinstance(answer, Stale)
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


async def test_one_is_reserved_again_only_when_the_one_before_it_has_ended(
    partition: Partition, valkey: Counted, namespace: str, log: Log, service: VotingService
) -> None:
    """Both may be in doubt, and come out of it in another order."""
    is_read, happened = asyncio.Event(), list[str]()

    async def read(*_: int) -> None:
        await is_read.wait()

    addresses = AddressCounters(valkey, namespace)
    driver = Driver(VotesLog(namespace, 1), partition.views, addresses, service.contests, log, read)

    def first() -> Steps[None]:
        yield Reserve(request(CONTEST, "1"))
        happened.append("first reserved")
        yield ReadCast(0)
        happened.append("first ended")

    def second() -> Steps[None]:
        yield Reserve(request(CONTEST, "2"))
        happened.append("second reserved")
        yield Reserve(request(CONTEST, "2"))
        happened.append("second reserved again")

    ended = run_both(driver, first(), second())
    await eventually(lambda: len(happened) == 2)
    third = service.cast("account", [a_vote(voter="third")])  # a call has ended meanwhile
    assert isinstance((await third)[0], Accepted)
    is_read.set()
    await asyncio.wait_for(ended, 60)
    assert happened == ["first reserved", "second reserved", "first ended", "second reserved again"]
