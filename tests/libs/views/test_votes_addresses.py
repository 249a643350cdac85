"""Address counters."""

import asyncio
from typing import Any

import pytest

from libs.tally.errors import ViewsUnavailable
from libs.tally.reservations import AddressAnswer, Take, Taken
from libs.views.valkey.client import ValkeyClient
from libs.views.votes import address_counters
from libs.views.votes.address_counters import AddressCounters

WHERE = "contest", "a", "address"
OTHER = "contest", "b", "address"


@pytest.fixture
def counters(valkey: ValkeyClient, namespace: str) -> AddressCounters:
    return AddressCounters(valkey, namespace)


async def take(
    counters: AddressCounters, taker: str, votes: int, limit: int, expires_at_s: int = 0
) -> AddressAnswer:
    """Use votes of the one counter."""
    [answer] = await counters.take([Take(WHERE, taker, votes, limit, expires_at_s)])
    assert isinstance(answer, AddressAnswer)
    return answer


async def test_what_is_given_back_is_free_again_and_given_once(counters: AddressCounters) -> None:
    await take(counters, "1", 3, 4)
    for _ in range(2):
        await counters.give(WHERE, "1")
        await counters.give(WHERE, "never taken")
    assert await take(counters, "2", 4, 4) == AddressAnswer(Taken.TAKEN, 0)


async def test_the_use_of_a_removed_vote_is_free_however_many_attempts_had_it(counters: AddressCounters) -> None:
    for _ in range(3):
        await take(counters, "1", 2, 2)
    await counters.give(WHERE, "1", removed=True)
    assert await take(counters, "2", 2, 2) == AddressAnswer(Taken.TAKEN, 0)


async def test_without_a_limit_it_only_counts(counters: AddressCounters) -> None:
    await take(counters, "1", 1_000_000, -1)
    assert await take(counters, "2", 1, -1) == AddressAnswer(Taken.TAKEN, 1_000_000)


async def test_participants_and_addresses_have_counters_of_their_own(counters: AddressCounters) -> None:
    await take(counters, "1", 1, 1)
    for where in (OTHER, ("contest", "a", "other"), ("other", "a", "address")):
        assert await counters.take([Take(where, "1", 1, 1)]) == [AddressAnswer(Taken.TAKEN, 0)]


@pytest.mark.parametrize(("is_cluster", "keys"), [(False, [4, 2]), (True, [1] * 6)])
async def test_takers_get_up_to_the_limit_each_once_and_in_their_order_by_one_call_for_each_in_a_cluster(
    counters: AddressCounters,
    valkey: ValkeyClient,
    monkeypatch: pytest.MonkeyPatch,
    is_cluster: bool,
    keys: list[int],
) -> None:
    monkeypatch.setattr(valkey, "is_cluster", is_cluster)
    monkeypatch.setattr(address_counters, "MOST_COUNTERS", 4)
    calls, call = [], valkey.call

    def counted(*command: Any) -> Any:
        calls.append(command[2])
        return call(*command)

    monkeypatch.setattr(valkey, "call", counted)
    taken = [
        (Take(WHERE, "1", 2, 3), AddressAnswer(Taken.TAKEN, 0)),
        (Take(OTHER, "1", 1, 3), AddressAnswer(Taken.TAKEN, 0)),
        (Take(WHERE, "2", 2, 3), AddressAnswer(Taken.FULL, 2)),
        (Take(WHERE, "1", 1, 3), AddressAnswer(Taken.HAD, 0)),
        (Take(WHERE, "3", 1, 3), AddressAnswer(Taken.TAKEN, 2)),
        (Take(OTHER, "2", 9, -1), AddressAnswer(Taken.TAKEN, 1)),
    ]
    assert await counters.take([take for take, _ in taken]) == [answer for _, answer in taken]
    assert calls == keys
    assert await counters.take([]) == []


async def test_what_one_call_fails_at_is_the_answer_of_its_takers_alone(
    counters: AddressCounters, valkey: ValkeyClient, namespace: str
) -> None:
    await valkey.call("SET", f"{namespace}:{{a:contest:a:address}}", "no hash")
    takes = [Take(WHERE, "1", 1, 3), Take(OTHER, "1", 1, 3), Take(WHERE, "2", 1, 3)]
    failed, taken, failed_too = await counters.take(takes)
    assert isinstance(failed, ViewsUnavailable)
    assert isinstance(failed_too, ViewsUnavailable)
    assert taken == AddressAnswer(Taken.TAKEN, 0)


async def test_a_counter_ends_at_its_time(counters: AddressCounters, valkey: ValkeyClient, namespace: str) -> None:
    await take(counters, "1", 1, 1, expires_at_s=2_000_000_000)
    [key] = await valkey.call("KEYS", f"{namespace}:*")
    assert await valkey.call("EXPIRETIME", key) == 2_000_000_000


async def test_a_call_that_is_late_is_given_up(
    counters: AddressCounters, valkey: ValkeyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(address_counters, "TAKE_S", 0.01)
    monkeypatch.setattr(valkey, "call", lambda *command: late)
    [answer] = await counters.take([Take(WHERE, "1", 1, 3)])
    assert isinstance(answer, ViewsUnavailable)
    assert late.cancelled(), "nobody would retrieve its error"
