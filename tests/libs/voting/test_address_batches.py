"""Counters of addresses that do not respond: votes pass uncounted, and delay no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.tally.errors import ViewsUnavailable
from libs.tally.reservations import Take
from libs.views.valkey.client import ValkeyClient
from libs.views.votes.address_counters import AddressCounters
from libs.voting.protocol.effects import AddressTaken
from libs.voting.protocol_driver import take_all
from tests.support.clients.intercepted_valkey import InterceptedValkey
from tests.support.servers.loaded_valkey import loaded_valkey

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
    async with loaded_valkey(valkey_address) as client:
        losable = Losable(client)
        yield losable
        losable.over.set()


@pytest.fixture
def counters(valkey: Losable, namespace: str) -> AddressCounters:
    return AddressCounters(valkey, namespace)


def taking(counters: AddressCounters, taker: str, *participants: str) -> asyncio.Task[AddressTaken]:
    takes = [Take(("contest", each, "home"), taker, 1, LIMIT) for each in participants or ("a",)]
    return asyncio.ensure_future(take_all(counters, takes))


async def test_while_a_counter_is_lost_votes_pass_uncounted(counters: AddressCounters, valkey: Losable) -> None:
    await taking(counters, "before")
    valkey.lost = "a"
    for number in range(2 * LIMIT):
        assert await taking(counters, str(number)) == AddressTaken(())
    valkey.lost = ""
    assert await taking(counters, "next") == AddressTaken(("a",))
    assert await taking(counters, "last") == AddressTaken((), LIMIT)


async def test_another_counter_of_the_same_vote_still_limits_it(
    counters: AddressCounters, valkey: Losable
) -> None:
    valkey.lost = "a"
    for number in range(LIMIT):
        assert await taking(counters, str(number), "a", "b") == AddressTaken(("b",))
    assert await taking(counters, "last", "a", "b") == AddressTaken((), LIMIT)


async def test_a_counter_that_hangs_delays_no_vote_of_another(
    counters: AddressCounters, valkey: Losable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.views.votes.address_counters.TAKE_S", 60.0)
    valkey.hanging = "a"
    late, also_late, answered = taking(counters, "1"), taking(counters, "2", "a", "b"), taking(counters, "3", "b")
    assert await answered == AddressTaken(("b",), None)
    assert not late.done()
    assert not also_late.done()


async def test_a_counter_that_hangs_is_not_waited_for(
    counters: AddressCounters, valkey: Losable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.views.votes.address_counters.TAKE_S", 0.01)
    valkey.hanging = "a"
    answer = await taking(counters, "1", "a", "b")
    assert "a" not in answer.participants
