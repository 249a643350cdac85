"""Batches of calls: partitions of one server share them, and no caller waits beyond its deadline."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest

from libs.contracts.vote_states import VoteName
from libs.tally.errors import ViewsUnavailable
from libs.tally.reservations import Answer, GateClosed, Granted, Request, Reserved, Stale, Take
from libs.views.votes.address_counters import counter_key
from libs.voting.batching import CALL_PARTITIONS, CALL_REQUESTS, CALLS, ConfirmationBatcher, ReservationBatcher
from tests.libs.views.lua_ledger import request_of
from tests.libs.views.partition import Partition
from tests.libs.voting.conftest import Counted
from tests.support.builders import a_contest, a_vote
from tests.support.eventually import eventually
from tests.support.vote_views import VoteViews

Requests = Sequence[tuple[int, Sequence[Request]]]
TAKE = Take(("contest", "a", "address"), "", 1, 5)


class Frozen(VoteViews):
    """Views of a partition whose reservations are decided, and answered only once they are thawed."""

    def __init__(self, valkey: Counted, namespace: str) -> None:
        super().__init__(valkey, namespace, 1)
        self.thawed = asyncio.Event()
        self.thawed.set()
        self.sizes: list[int] = []
        """Requests of each call."""
        self.reservations = ReservationBatcher(self)

    async def reserve_together(self, requests: Requests) -> list[list[Reserved] | ViewsUnavailable]:
        self.sizes.append(sum(len(its) for _, its in requests))
        answers = await super().reserve_together(requests)
        await self.thawed.wait()
        return answers

    def reserve_soon(
        self, voters: Sequence[str], wait_s: float, take: Take | None = None
    ) -> list["asyncio.Future[Answer]"]:
        """Reserve a vote of each, with a use of an address limit in the voter's name if one is given."""
        loop = asyncio.get_running_loop()
        answers = [loop.create_future() for _ in voters]

        def reply(answer: "asyncio.Future[Answer]", given: Reserved | Exception) -> None:
            if isinstance(given, Exception):
                answer.set_exception(given)
            else:
                answer.set_result(given.answer)

        for voter, answer in zip(voters, answers, strict=True):
            its = request(voter)._replace(take=take and take._replace(taker=voter))
            self.reservations.reserve(0, its, loop.time() + wait_s, partial(reply, answer))
        return answers

    async def pending_is(self, count: int) -> bool:
        return (await self.state(0)).pending == count

    async def used(self) -> int:
        """Return the uses of the counter."""
        return int(await self._valkey.call("HGET", counter_key(self._namespace, TAKE.counter), ""))


@pytest.fixture
async def frozen(valkey: Counted, namespace: str) -> Frozen:
    """With an open gate, and a contest in force."""
    frozen = Frozen(valkey, namespace)
    partition, first = Partition(frozen), a_vote(voter="first")
    await partition.fence()
    granted = await partition.grant(first)
    await frozen.release(0, VoteName("contest", first.voter, "vote"), granted.incarnation)
    frozen.thawed.clear()
    frozen.sizes.clear()
    return frozen


def request(voter: str) -> Request:
    return request_of(a_contest(), a_vote(voter=voter))


async def outcomes(futures: Sequence["asyncio.Future[Answer]"]) -> list[object]:
    return await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 60)


async def test_all_that_queue_are_answered_by_their_own_deadlines(frozen: Frozen) -> None:
    """Not one call after another; and those that were never sent never will be."""
    waiting = frozen.reserve_soon([f"v{n}" for n in range(640)], 0.3)
    patient = frozen.reserve_soon(["patient"], 30)
    assert {type(answer) for answer in await outcomes(waiting)} == {ViewsUnavailable}
    assert frozen.sizes == [CALL_REQUESTS] * CALLS
    frozen.thawed.set()
    assert [type(answer) for answer in await outcomes(patient)] == [Granted]
    assert frozen.sizes == [CALL_REQUESTS] * CALLS + [1]


async def test_only_full_calls_start_while_another_is_in_flight(frozen: Frozen) -> None:
    """So under load calls are large, and the server always has one to go on with."""
    answers = frozen.reserve_soon(["first"], 30)
    await eventually(lambda: frozen.sizes == [1])
    answers += frozen.reserve_soon([f"v{n}" for n in range(CALL_REQUESTS + 5)], 30)
    await eventually(lambda: len(frozen.sizes) > 1)
    assert frozen.sizes == [1, CALL_REQUESTS]
    frozen.thawed.set()
    assert {type(answer) for answer in await outcomes(answers)} == {Granted}
    assert frozen.sizes == [1, CALL_REQUESTS, 5]


async def test_what_is_granted_too_late_gives_its_use_of_an_address_limit_back(frozen: Frozen) -> None:
    """Unless another attempt of the vote has joined it: that one counts."""
    late = frozen.reserve_soon(["late", "joined"], 0.5, TAKE)
    awaited = frozen.reserve_soon(["awaited"], 30)
    await outcomes(late)
    await eventually(lambda: frozen.pending_is(3))
    requests = [request("joined")._replace(take=TAKE._replace(taker="joined"))]
    [[again]] = await VoteViews.reserve_together(frozen, [(0, requests)])  # type: ignore[misc]
    assert again.use is not None
    assert await frozen.used() == 2
    frozen.thawed.set()
    assert [type(answer) for answer in await outcomes(awaited)] == [Granted]
    await eventually(lambda: frozen.pending_is(2))
    assert await frozen.used() == 1


async def test_a_failed_call_answers_its_own_requests_and_the_next_goes_on(
    frozen: Frozen, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_few(requests: Requests) -> list[list[Reserved] | ViewsUnavailable]:
        frozen.sizes.append(len(requests))
        [(_, its)] = requests
        return [[Reserved(GateClosed())] * (1 if len(frozen.sizes) == 1 else len(its))]

    monkeypatch.setattr(frozen, "reserve_together", too_few)
    answers = await outcomes(frozen.reserve_soon([f"v{n}" for n in range(CALL_REQUESTS + 1)], 30))
    assert Counter(map(type, answers[1:-1])) == {ValueError: CALL_REQUESTS - 1}
    assert isinstance(answers[-1], GateClosed)


class Together(VoteViews):
    """Views of many partitions, with the partitions of each call."""

    def __init__(self, views: VoteViews, is_apart: bool) -> None:
        super().__init__(views._valkey, views._namespace, CALL_PARTITIONS + 1)
        self.is_apart = is_apart
        self.calls: list[list[int]] = []

    def call_group(self, partition: int) -> int:
        return partition if self.is_apart else 0

    async def reserve_together(self, requests: Requests) -> list[list[Reserved] | ViewsUnavailable]:
        self.calls.append([partition for partition, _ in requests])
        return await super().reserve_together(requests)

    async def confirm_together(self, gates: Sequence[tuple[int, int]]) -> list[bool | ViewsUnavailable]:
        self.calls.append([partition for partition, _ in gates])
        return await super().confirm_together(gates)


@pytest.fixture
async def many(valkey: Counted, namespace: str) -> VoteViews:
    """More partitions than one call decides for: gate 1 is open, 2 is broken, all others are shut."""
    views = VoteViews(valkey, namespace, CALL_PARTITIONS + 1)
    await Partition(views, 1).fence()
    await valkey.call("SET", f"{views._base(2)}:gate", "no hash")
    return views


@pytest.mark.parametrize("is_cluster", [False, True])
async def test_partitions_of_one_server_share_calls_and_each_has_its_own_answer(
    many: VoteViews, is_cluster: bool
) -> None:
    views, loop = Together(many, is_cluster), asyncio.get_running_loop()
    reservations = ReservationBatcher(views)
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
    confirmations = ConfirmationBatcher(views)
    n = (await many.state(1)).incarnation
    gates = [(0, n), (1, n), (1, n), (1, n + 1), (2, n)]
    answers = [loop.create_future() for _ in gates]
    for gate, answer in zip(gates, answers, strict=True):
        confirmations.confirm(*gate, answer.set_result)
    *known, broken = await asyncio.wait_for(asyncio.gather(*answers), 60)
    assert known == [False, True, True, False]
    assert isinstance(broken, ViewsUnavailable)
    assert sorted(views.calls) == ([[0], [1, 1], [2]] if is_cluster else [[0, 1, 1, 2]])
