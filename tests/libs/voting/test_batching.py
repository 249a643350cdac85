"""Reservations with an unresponsive Valkey: no caller waits beyond its deadline."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest

from libs.tally.errors import ViewsUnavailable
from libs.tally.reservations import Answer, GateClosed, Granted, Request
from libs.views.vote_views import VoteViews
from libs.voting.batching import CALL_REQUESTS, ReservationBatcher
from tests.libs.views.simulation.lua_ledger import request_of
from tests.libs.views.simulation.lua_partition import Partition
from tests.support.builders import a_contest, a_vote
from tests.support.eventually import eventually


class Frozen:
    """Views whose reservations are decided, and answered only once it is thawed."""

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self.release = views.release
        self.thawed = asyncio.Event()
        self.calls: list[int] = []

    async def reserve(self, partition: int, requests: Sequence[Request]) -> list[Answer]:
        self.calls.append(len(requests))
        answers = await self._views.reserve(partition, requests)
        await self.thawed.wait()
        return answers


@pytest.fixture
async def frozen(partition: Partition) -> Frozen:
    first = a_vote(voter="first")
    await partition.views.release(0, "contest", first.voter, "vote", (await partition.grant(first)).incarnation)
    return Frozen(partition.views)


@pytest.fixture
def reservations(frozen: Frozen) -> ReservationBatcher:
    return ReservationBatcher(frozen)  # type: ignore[arg-type]


def request(voter: str) -> Request:
    return request_of(a_contest(), a_vote(voter=voter))


def reserved(
    reservations: ReservationBatcher, voters: Sequence[str], wait_s: float
) -> list["asyncio.Future[Answer]"]:
    loop = asyncio.get_running_loop()
    answers = [loop.create_future() for _ in voters]

    def reply(answer: "asyncio.Future[Answer]", given: Answer | Exception) -> None:
        if isinstance(given, Exception):
            answer.set_exception(given)
        else:
            answer.set_result(given)

    for voter, answer in zip(voters, answers, strict=True):
        reservations.reserve(0, request(voter), loop.time() + wait_s, partial(reply, answer))
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
    assert frozen.calls == [CALL_REQUESTS]
    frozen.thawed.set()
    assert [type(answer) for answer in await outcomes(patient)] == [Granted]
    assert frozen.calls == [CALL_REQUESTS, 1]


async def test_what_is_granted_too_late_is_given_back(
    partition: Partition, frozen: Frozen, reservations: ReservationBatcher
) -> None:
    """Else it would hold its voter's allowance until a fence, and shut the partition for that."""
    late = reserved(reservations, ["late"], 0.5)
    awaited = reserved(reservations, ["awaited"], 30)
    await outcomes(late)
    assert (await partition.views.state(0)).pending == 2
    frozen.thawed.set()
    assert [type(answer) for answer in await outcomes(awaited)] == [Granted]
    await eventually(lambda: pending_is(partition, 1))


async def pending_is(partition: Partition, count: int) -> bool:
    return (await partition.views.state(0)).pending == count


async def test_a_failed_call_answers_its_own_requests_and_the_next_goes_on(
    partition: Partition, frozen: Frozen, reservations: ReservationBatcher
) -> None:
    async def too_few(partition: int, requests: Sequence[Request]) -> list[Answer]:
        frozen.calls.append(len(requests))
        return [GateClosed()] if len(frozen.calls) == 1 else [GateClosed()] * len(requests)

    frozen.reserve = too_few  # type: ignore[method-assign]
    answers = await outcomes(reserved(reservations, [f"v{n}" for n in range(CALL_REQUESTS + 1)], 30))
    assert Counter(map(type, answers[1:-1])) == {ValueError: CALL_REQUESTS - 1}
    assert isinstance(answers[-1], GateClosed)
