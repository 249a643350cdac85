"""Counters of addresses that do not respond: votes are admitted up to the limit, and added later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.tally.errors import ViewsUnavailable
from libs.views.address_counters import AddressCounters, Counter, Take
from libs.views.client import ValkeyClient
from libs.views.function_loading import load_functions, open_valkey
from libs.voting import address_fallback
from libs.voting.batching import AddressBatcher
from libs.voting.protocol.effects import AddressTaken
from tests.support.eventually import eventually
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
async def valkey(valkey_address: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Losable]:
    monkeypatch.setattr(address_fallback, "RESTORE_S", 0.01)
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


async def used(valkey: Losable, namespace: str) -> int:
    """Return what the counter holds, by asking for too much."""
    [answer] = await AddressCounters(valkey, namespace).take([Take(counter(), "asker", 1_000, 0)])
    assert not isinstance(answer, ViewsUnavailable)
    return answer.used


async def test_a_lost_counter_admits_up_to_the_limit(
    batcher: AddressBatcher, valkey: Losable, namespace: str
) -> None:
    await taking(batcher, "before")
    valkey.lost = "a"
    assert await taking(batcher, "1") == AddressTaken(("a",), None)
    assert await taking(batcher, "1") == AddressTaken((), None)
    assert await taking(batcher, "2") == AddressTaken(("a",), None)
    assert await taking(batcher, "3") == AddressTaken((), 2)
    await batcher_gives(batcher, "2")
    assert await taking(batcher, "4") == AddressTaken(("a",), None)

    valkey.lost = ""

    async def is_restored() -> bool:
        return await used(valkey, namespace) == 3

    await eventually(is_restored)
    assert await taking(batcher, "5") == AddressTaken((), 3)


async def batcher_gives(batcher: AddressBatcher, taker: str) -> None:
    with pytest.raises(ViewsUnavailable):
        await batcher.give(counter(), taker)


async def test_a_counter_that_hangs_delays_no_vote_of_another(
    batcher: AddressBatcher, valkey: Losable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.views.address_counters.TAKE_S", 60.0)
    valkey.hanging = "a"
    late, also_late, answered = taking(batcher, "1"), taking(batcher, "2", "a", "b"), taking(batcher, "3", "b")
    assert await answered == AddressTaken(("b",), None)
    assert not late.done()
    assert not also_late.done()


async def test_a_counter_that_hangs_is_not_waited_for(
    batcher: AddressBatcher, valkey: Losable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.views.address_counters.TAKE_S", 0.01)
    valkey.hanging = "a"
    assert await taking(batcher, "1", "a", "b") == AddressTaken(("a", "b"), None)


async def test_a_process_that_holds_too_much_refuses(
    batcher: AddressBatcher, valkey: Losable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address_fallback, "MOST_USES", 1)
    valkey.lost = "a"
    assert await taking(batcher, "1") == AddressTaken(("a",), None)
    assert isinstance(await taking(batcher, "2"), ViewsUnavailable)
