"""Groups of votes: partitions of one server share calls, and no vote waits beyond its deadline."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from libs.contracts.topics import Topic
from libs.contracts.vote_states import VoteName
from libs.tally.errors import ViewsUnavailable
from libs.tally.reservations import Answer, GateClosed, Granted, Request, Reserved, Stale, Take
from libs.views.votes.address_counters import counter_key
from libs.voting.group_commit import GroupCommit
from libs.voting.group_queue import GROUP_PARTITIONS, GROUP_VOTES, GROUPS
from libs.voting.protocol.effects import Confirm, Effect, Reserve, Steps, TakeAddress
from libs.voting.protocol_run import Run
from tests.libs.views.lua_ledger import request_of
from tests.libs.views.partition import Partition
from tests.libs.voting.conftest import Counted
from tests.support.builders.contests import a_contest, a_vote
from tests.support.clients.vote_views import VoteViews
from tests.support.eventually import eventually

Requests = Sequence[tuple[int, Sequence[Request]]]
TAKE = Take(("contest", "a", "address"), "", 1, 5)


def groups_of(views: VoteViews) -> GroupCommit:
    """Groups of votes that need nothing else, and no log."""

    def no_effect(run: Run) -> None:
        raise AssertionError(run.effect)

    def take_of(_: Run, effect: TakeAddress) -> Take:
        return TAKE._replace(taker=effect.taker)

    return GroupCommit(Topic("votes", 1), views, None, take_of, no_effect)  # type: ignore[arg-type]


def run_of(voter: str, ended: "asyncio.Future[Any]", *, partition: int = 0, effects: Sequence[Effect] = ()) -> Run:
    """Return a vote that ends with the reply to its last effect: by default its reservation."""

    def steps() -> Steps[Any]:
        reply = None
        for effect in effects or [Reserve(request(voter))]:
            reply = yield effect
        return reply

    return Run(steps(), "account", a_vote(voter=voter), partition, ended.set_result)


class Frozen(VoteViews):
    """Views of a partition whose reservations are decided, and answered only once they are thawed."""

    def __init__(self, valkey: Counted, namespace: str) -> None:
        super().__init__(valkey, namespace, 1)
        self.thawed = asyncio.Event()
        self.thawed.set()
        self.sizes: list[int] = []
        """Requests of each call."""
        self.groups = groups_of(self)

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
        for voter, answer in zip(voters, answers, strict=True):
            reserve = Reserve(request(voter))
            use = TakeAddress(a_contest(), voter, (("a", 1),), reserve.request)
            run = run_of(voter, answer, effects=[reserve] if take is None else [use, reserve])
            run.settle_deadline = loop.time() + wait_s
            self.groups.start([run])
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
    assert frozen.sizes == [GROUP_VOTES] * GROUPS
    frozen.thawed.set()
    assert [type(answer) for answer in await outcomes(patient)] == [Granted]
    assert frozen.sizes == [GROUP_VOTES] * GROUPS + [1]


async def test_only_full_calls_start_while_another_is_in_flight(frozen: Frozen) -> None:
    """So under load calls are large, and the server always has one to go on with."""
    answers = frozen.reserve_soon(["first"], 30)
    await eventually(lambda: frozen.sizes == [1])
    answers += frozen.reserve_soon([f"v{n}" for n in range(GROUP_VOTES + 5)], 30)
    await eventually(lambda: len(frozen.sizes) > 1)
    assert frozen.sizes == [1, GROUP_VOTES]
    frozen.thawed.set()
    assert {type(answer) for answer in await outcomes(answers)} == {Granted}
    assert frozen.sizes == [1, GROUP_VOTES, 5]


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
    answers = await outcomes(frozen.reserve_soon([f"v{n}" for n in range(GROUP_VOTES + 1)], 30))
    assert Counter(map(type, answers[1:-1])) == {ValueError: GROUP_VOTES - 1}
    assert isinstance(answers[-1], GateClosed)


class Together(VoteViews):
    """Views of many partitions, with the partitions of each call."""

    def __init__(self, views: VoteViews, is_apart: bool) -> None:
        super().__init__(views._valkey, views._namespace, GROUP_PARTITIONS + 1)
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
    views = VoteViews(valkey, namespace, GROUP_PARTITIONS + 1)
    await Partition(views, 1).fence()
    await valkey.call("SET", f"{views._base(2)}:gate", "no hash")
    return views


@pytest.mark.parametrize("is_cluster", [False, True])
async def test_partitions_of_one_server_share_calls_and_each_has_its_own_answer(
    many: VoteViews, is_cluster: bool
) -> None:
    views, loop = Together(many, is_cluster), asyncio.get_running_loop()
    groups = groups_of(views)
    partitions = [*range(GROUP_PARTITIONS + 1), 1]
    answers = [loop.create_future() for _ in partitions]
    for partition, answer in zip(partitions, answers, strict=True):
        groups.start([run_of("voter", answer, partition=partition)])
    shut, opened, broken, *others, again = await asyncio.wait_for(asyncio.gather(*answers), 60)
    assert isinstance(broken, ViewsUnavailable)
    assert isinstance(opened, Stale)
    assert opened == again
    assert {type(each) for each in (shut, *others)} == {GateClosed}
    last = GROUP_PARTITIONS
    alone = [[partition] for partition in range(GROUP_PARTITIONS + 1)]
    assert sorted(views.calls) == (alone if is_cluster else [[*range(last)], [last]])


@pytest.mark.parametrize("is_cluster", [False, True])
async def test_confirmations_of_one_server_share_a_call_and_each_has_its_own_answer(
    many: VoteViews, is_cluster: bool
) -> None:
    views, loop = Together(many, is_cluster), asyncio.get_running_loop()
    groups, n = groups_of(views), (await many.state(1)).incarnation
    gates = [(0, n), (1, n), (1, n), (1, n + 1), (2, n)]
    answers = [loop.create_future() for _ in gates]
    for (partition, incarnation), answer in zip(gates, answers, strict=True):
        groups.start([run_of("voter", answer, partition=partition, effects=[Confirm(incarnation)])])
    *known, broken = await asyncio.wait_for(asyncio.gather(*answers), 60)
    assert known == [False, True, True, False]
    assert isinstance(broken, ViewsUnavailable)
    assert sorted(views.calls) == ([[0], [1, 1], [2]] if is_cluster else [[0, 1, 1, 2]])
