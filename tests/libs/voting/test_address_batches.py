"""Counters of addresses that do not respond: votes pass uncounted, and delay no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.tally.errors import ViewsUnavailable
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.function_loading import load_functions, open_valkey
from libs.views.votes.address_counters import AddressCounters, Counter, Take
from libs.voting.batching import AddressBatcher
from libs.voting.protocol.effects import AddressTaken
from tests.support.intercepted_valkey import InterceptedValkey

LIMIT = 2


class Losable(InterceptedValkey):
    """A client of a cluster of which the counters of some participants are lost, or hang."""

    is_cluster = True

    def __init__(self, valkey: ValkeyClient) -> None:
        super().__init__(valkey)
        self.lost = ""
        self.hanging = ""
        self.over = asyncio.Event()

    async def call(self, *command: Any) -> Any:
        participant = command[3].split(":")[3]
        if participant == self.hanging:
            await self.over.wait()
        if participant == self.lost:
            raise ViewsUnavailable("lost")
        return await super().call(*command)


@pytest.fixture
async def valkey(valkey_address: str) -> AsyncIterator[Losable]:
    client = open_valkey(valkey_address)
    await load_functions(client)
    losable = Losable(client)
    yield losable
    losable.over.set()
    await client.close()


@pytest.fixture
def batcher(valkey: Losable, namespace: str) -> AddressBatcher:
    return AddressBatcher(AddressCounters(valkey, namespace))


def counter(participant: str = "a") -> Counter:
    return "contest", participant, "home"


def taking(batcher: AddressBatcher, taker: str, *participants: str) -> asyncio.Future[AddressTaken | Exception]:
    answer: asyncio.Future[AddressTaken | Exception] = asyncio.get_running_loop().create_future()
    batcher.take([Take(counter(each), taker, 1, LIMIT) for each in participants or ("a",)], answer.set_result)
    return answer


async def test_while_a_counter_is_lost_votes_pass_uncounted(batcher: AddressBatcher, valkey: Losable) -> None:
    await taking(batcher, "before")
    valkey.lost = "a"
    for number in range(2 * LIMIT):
        assert await taking(batcher, str(number)) == AddressTaken(())
    valkey.lost = ""
    assert await taking(batcher, "next") == AddressTaken(("a",))
    assert await taking(batcher, "last") == AddressTaken((), LIMIT)


async def test_another_counter_of_the_same_vote_still_limits_it(batcher: AddressBatcher, valkey: Losable) -> None:
    valkey.lost = "a"
    for number in range(LIMIT):
        assert await taking(batcher, str(number), "a", "b") == AddressTaken(("b",))
    assert await taking(batcher, "last", "a", "b") == AddressTaken((), LIMIT)


async def test_a_counter_that_hangs_delays_no_vote_of_another(
    batcher: AddressBatcher, valkey: Losable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.views.votes.address_counters.TAKE_S", 60.0)
    valkey.hanging = "a"
    late, also_late, answered = taking(batcher, "1"), taking(batcher, "2", "a", "b"), taking(batcher, "3", "b")
    assert await answered == AddressTaken(("b",), None)
    assert not late.done()
    assert not also_late.done()


async def test_a_counter_that_hangs_is_not_waited_for(
    batcher: AddressBatcher, valkey: Losable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.views.votes.address_counters.TAKE_S", 0.01)
    valkey.hanging = "a"
    answer = await taking(batcher, "1", "a", "b")
    assert isinstance(answer, AddressTaken)
    assert "a" not in answer.participants
