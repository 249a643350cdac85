"""The shared connection to Valkey: every call gets its own reply, whatever happens to others."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hiredis import pack_command

from libs.tally.errors import ViewsUnavailable
from libs.views.valkey import client
from libs.views.valkey.client import Coalescer, connect
from libs.views.valkey.connection import Call, NotExecuted, open_connection
from libs.views.valkey.settings import ValkeySettings
from tests.support.servers.loaded_valkey import once_executed
from tests.support.servers.proxy import proxy

LARGE = 32 << 20


@pytest.fixture
async def valkey(valkey_address: str) -> AsyncIterator[Coalescer]:
    valkey = client_of(valkey_address)
    yield valkey
    await valkey.close()


def client_of(url: str) -> Coalescer:
    return Coalescer(connect(ValkeySettings(valkey_url=url)))


def a_call(*command: Any) -> Call:
    return Call(pack_command(command), asyncio.Future(), 0.0)


async def outcomes(*calls: Any) -> list[Any]:
    return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 60)


@pytest.mark.parametrize("unfit", ["\ud800", None, True, object()])
async def test_an_argument_that_cannot_be_sent_fails_its_caller_alone(
    valkey: Coalescer, namespace: str, unfit: object
) -> None:
    first, second, third = await outcomes(
        valkey.call("SET", f"{namespace}:a", 1),
        valkey.call("SET", f"{namespace}:b", unfit),
        valkey.call("SET", f"{namespace}:c", "three"),
    )
    assert (first, third) == (b"OK", b"OK")
    assert isinstance(second, UnicodeEncodeError | TypeError)
    assert await valkey.call("GET", f"{namespace}:c") == b"three"


async def test_every_caller_gets_the_reply_of_its_own_command(valkey: Coalescer, namespace: str) -> None:
    calls = [valkey.call("ECHO", number) for number in range(500)]
    failing = valkey.call("HGET", f"{namespace}:missing")
    calls += [valkey.call("ECHO", number) for number in range(500, 1000)]
    assert await outcomes(*calls) == [str(number).encode() for number in range(1000)]
    with pytest.raises(ViewsUnavailable):
        await failing


async def test_cancelled_callers_do_not_shift_the_replies_of_others(valkey: Coalescer) -> None:
    """Cancelled before their commands are sent, and after."""
    for sent in False, True:
        calls = [asyncio.ensure_future(valkey.call("ECHO", number)) for number in range(100)]
        if sent:
            await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        assert await outcomes(*calls[1::2]) == [str(number).encode() for number in range(1, 100, 2)]


async def test_a_reply_after_its_deadline_answers_no_other_command(valkey_address: str) -> None:
    connection = await open_connection(connect(ValkeySettings(valkey_url=valkey_address)))
    late, next_one = a_call("ECHO", "late"), a_call("ECHO", "next")
    late.fail(TimeoutError())
    connection.send([late, next_one])
    assert await next_one.answer == b"next"
    with pytest.raises(TimeoutError):
        await late.answer
    connection.abort("done")
    await connection.lost


async def test_large_replies_and_arguments_come_whole_beside_small_ones(valkey: Coalescer, namespace: str) -> None:
    large = bytes(range(256)) * (LARGE // 256)
    await valkey.call("SET", f"{namespace}:large", large)
    for _ in range(3):
        found, *small = await outcomes(
            valkey.call("GET", f"{namespace}:large"), *(valkey.call("ECHO", n) for n in range(50))
        )
        assert found == large
        assert small == [str(n).encode() for n in range(50)]
    await valkey.call("UNLINK", f"{namespace}:large")


async def test_a_silent_server_holds_nobody_longer_than_one_timeout(
    valkey_address: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that wait to be sent; these are never sent, since no caller awaits their answers."""
    async with proxy(valkey_address) as way:
        valkey = client_of(way.url(valkey_address))
        await valkey.call("PING")
        with monkeypatch.context() as impatient:
            impatient.setattr(client, "TIMEOUT_S", 0.2)
            way.freeze()
            calls = []
            for _ in range(5):
                calls.append(valkey.call("INCR", f"{namespace}:counter"))
                await asyncio.sleep(0.01)  # the first one is in flight; a second connection never opens
            first, *others = await outcomes(*calls)
        assert isinstance(first, ViewsUnavailable)
        assert not isinstance(first, NotExecuted)
        assert all(isinstance(error, NotExecuted) for error in others)
        way.open()
        assert int(await once_executed(lambda: valkey.call("INCR", f"{namespace}:counter"))) <= 2
        await valkey.close()


async def test_a_hung_server_does_not_collect_calls_without_bound(
    valkey_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_WAITING", 3)
    async with proxy(valkey_address) as frozen:
        frozen.freeze()
        valkey = client_of(frozen.url(valkey_address))
        held = [valkey.call("ECHO", number) for number in range(3)]
        with pytest.raises(NotExecuted):
            await valkey.call("ECHO", "one too many")
        frozen.open()
        assert await outcomes(*held) == [b"0", b"1", b"2"]
        assert await valkey.call("ECHO", "again") == b"again"
        await valkey.close()


async def test_a_closed_client_answers_what_it_was_asked_and_refuses_more(valkey_address: str) -> None:
    valkey = client_of(valkey_address)
    asked = valkey.call("ECHO", "asked")
    await valkey.close()
    assert asked.result() == b"asked"
    with pytest.raises(NotExecuted):
        await valkey.call("PING")
