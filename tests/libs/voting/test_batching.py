"""Batches of calls: partitions of one server share them, and no caller waits beyond its deadline."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

import pytest

from libs.contracts.log_records import Position
from libs.contracts.vote_states import VoteName
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import LogCreated
from libs.tally.reservations import Answer, GateClosed, Granted, Request, Reserved, Stale, Take
from libs.views.valkey.client import Coalescer, connect
from libs.views.valkey.function_loading import load_functions
from libs.views.valkey.settings import ValkeySettings
from libs.views.votes.address_counters import counter_key
from libs.voting.batching import (
    CALL_PARTITIONS,
    CALL_REQUESTS,
    CALLS,
    ConfirmationBatcher,
    ReservationBatcher,
)
from tests.libs.views.lua_ledger import request_of
from tests.libs.views.partition import Partition
from tests.support.builders import a_contest, a_vote
from tests.support.eventually import eventually
from tests.support.vote_views import FoldInput, VoteViews

Requests = Sequence[tuple[int, Sequence[Request]]]
COUNTER = "contest", "a", "address"


class Frozen:
    """Views whose reservations are decided, and answered only once it is thawed."""

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self.release = views.release
        self.call_group = views.call_group
        self.thawed = asyncio.Event()
        self.calls: list[int] = []

    async def reserve_together(self, requests: Requests) -> list[list[Reserved] | ViewsUnavailable]:
        self.calls.append(sum(len(its) for _, its in requests))
        answers = await self._views.reserve_together(requests)
        await self.thawed.wait()
        return answers


@pytest.fixture
async def frozen(partition: Partition) -> Frozen:
    first = a_vote(voter="first")
    await partition.views.release(
        0, VoteName("contest", first.voter, "vote"), (await partition.grant(first)).incarnation
    )
    return Frozen(partition.views)


@pytest.fixture
def reservations(frozen: Frozen) -> ReservationBatcher:
    return ReservationBatcher(frozen)  # type: ignore[arg-type]


def request(voter: str) -> Request:
    return request_of(a_contest(), a_vote(voter=voter))


def limited_request(voter: str) -> Request:
    return request(voter)._replace(take=Take(COUNTER, voter, 1, 5))


def reserved(
    reservations: ReservationBatcher,
    voters: Sequence[str],
    wait_s: float,
    make: Callable[[str], Request] = request,
) -> list["asyncio.Future[Answer]"]:
    loop = asyncio.get_running_loop()
    answers = [loop.create_future() for _ in voters]

    def reply(answer: "asyncio.Future[Answer]", given: Reserved | Exception) -> None:
        if isinstance(given, Exception):
            answer.set_exception(given)
        else:
            answer.set_result(given.answer)

    for voter, answer in zip(voters, answers, strict=True):
        reservations.reserve(0, make(voter), loop.time() + wait_s, partial(reply, answer))
    return answers


async def outcomes(futures: Sequence["asyncio.Future[Answer]"]) -> list[object]:
    return await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 60)


async def test_all_that_queue_are_answered_by_their_own_deadlines(
    frozen: Frozen, reservations: ReservationBatcher
) -> None:
    """Not one call after another; and those that were never sent never will be."""
    waiting = reserved(reservations, [f"v{n}" for n in range(640)], 0.3)
    patient = reserved(reservations, ["patient"], 30)
    answers = await outcomes(waiting)
    assert all(isinstance(answer, ViewsUnavailable) for answer in answers)
    assert frozen.calls == [CALL_REQUESTS] * CALLS
    frozen.thawed.set()
    assert [type(answer) for answer in await outcomes(patient)] == [Granted]
    assert frozen.calls == [CALL_REQUESTS] * CALLS + [1]


async def test_what_is_granted_too_late_gives_its_use_of_an_address_limit_back(
    partition: Partition, frozen: Frozen, reservations: ReservationBatcher
) -> None:
    """Unless another attempt of the vote has joined it: that one counts."""
    late = reserved(reservations, ["late", "joined"], 0.5, limited_request)
    awaited = reserved(reservations, ["awaited"], 30)
    await outcomes(late)
    await eventually(lambda: pending_is(partition, 3))
    requests = [limited_request("joined")]
    [[again]] = await partition.views.reserve_together([(0, requests)])  # type: ignore[misc]
    assert again.use is not None
    assert await used(partition) == 2
    frozen.thawed.set()
    assert [type(answer) for answer in await outcomes(awaited)] == [Granted]
    await eventually(lambda: pending_is(partition, 2))
    assert await used(partition) == 1


async def used(partition: Partition) -> int:
    """Return the uses of the counter."""
    views = partition.views
    return int(await views._valkey.call("HGET", counter_key(views._namespace, COUNTER), ""))


async def pending_is(partition: Partition, count: int) -> bool:
    return (await partition.views.state(0)).pending == count


async def test_a_failed_call_answers_its_own_requests_and_the_next_goes_on(
    partition: Partition, frozen: Frozen, reservations: ReservationBatcher
) -> None:
    async def too_few(requests: Requests) -> list[list[Reserved] | ViewsUnavailable]:
        frozen.calls.append(len(requests))
        [(_, its)] = requests
        return [[Reserved(GateClosed())] * (1 if len(frozen.calls) == 1 else len(its))]

    frozen.reserve_together = too_few  # type: ignore[method-assign]
    answers = await outcomes(reserved(reservations, [f"v{n}" for n in range(CALL_REQUESTS + 1)], 30))
    assert Counter(map(type, answers[1:-1])) == {ValueError: CALL_REQUESTS - 1}
    assert isinstance(answers[-1], GateClosed)


class Together:
    """Views of many partitions, with the partitions of each call."""

    def __init__(self, views: VoteViews, is_cluster: bool) -> None:
        self._views = views
        self._is_cluster = is_cluster
        self.calls: list[list[int]] = []

    def call_group(self, partition: int) -> int:
        return partition if self._is_cluster else 0

    async def reserve_together(self, requests: Requests) -> list[list[Reserved] | ViewsUnavailable]:
        self.calls.append([partition for partition, _ in requests])
        return await self._views.reserve_together(requests)

    async def confirm_together(self, gates: Sequence[tuple[int, int]]) -> list[bool | ViewsUnavailable]:
        self.calls.append([partition for partition, _ in gates])
        return await self._views.confirm_together(gates)


@pytest.fixture
async def many(valkey_address: str, namespace: str) -> AsyncIterator[VoteViews]:
    """More partitions than one call decides for: gate 1 is open, 2 is broken, all others are shut."""
    valkey = Coalescer(connect(ValkeySettings(valkey_url=valkey_address)))
    await load_functions(valkey)
    views = VoteViews(valkey, namespace, CALL_PARTITIONS + 1)
    fence = await views.shut(1, 0)
    assert fence is not None
    await views.apply(1, Position("log", 0), [FoldInput(LogCreated("log"), 0, 1), FoldInput(fence, 1, 2)], 2)
    await valkey.call("SET", f"{views._base(2)}:gate", "no hash")
    yield views
    await valkey.close()


@pytest.mark.parametrize("is_cluster", [False, True])
async def test_partitions_of_one_server_share_calls_and_each_has_its_own_answer(
    many: VoteViews, is_cluster: bool
) -> None:
    views, loop = Together(many, is_cluster), asyncio.get_running_loop()
    reservations = ReservationBatcher(views)  # type: ignore[arg-type]
    partitions = [*range(CALL_PARTITIONS + 1), 1]
    answers = [loop.create_future() for _ in partitions]
    for partition, answer in zip(partitions, answers, strict=True):
        reservations.reserve(partition, request("voter"), loop.time() + 60, answer.set_result)
    shut, opened, broken, *others, again = await asyncio.wait_for(asyncio.gather(*answers), 60)
    assert isinstance(broken, ViewsUnavailable)
    assert isinstance(opened.answer, Stale)
    assert opened == again
    assert {type(each.answer) for each in (shut, *others)} == {GateClosed}
    last = CALL_PARTITIONS
    alone = [[partition] for partition in range(CALL_PARTITIONS + 1)]
    assert sorted(views.calls) == (alone if is_cluster else [[*range(last)], [last]])


@pytest.mark.parametrize("is_cluster", [False, True])
async def test_confirmations_of_one_server_share_a_call_and_each_has_its_own_answer(
    many: VoteViews, is_cluster: bool
) -> None:
    views, loop = Together(many, is_cluster), asyncio.get_running_loop()
    confirmations = ConfirmationBatcher(views)  # type: ignore[arg-type]
    n = (await many.state(1)).incarnation
    gates = [(0, n), (1, n), (1, n), (1, n + 1), (2, n)]
    answers = [loop.create_future() for _ in gates]
    for gate, answer in zip(gates, answers, strict=True):
        confirmations.confirm(*gate, answer.set_result)
    *known, broken = await asyncio.wait_for(asyncio.gather(*answers), 60)
    assert known == [False, True, True, False]
    assert isinstance(broken, ViewsUnavailable)
    assert sorted(views.calls) == ([[0], [1, 1], [2]] if is_cluster else [[0, 1, 1, 2]])
