"""The connection to a Valkey that is killed, stopped, restarted or reconfigured: errors of its callers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from libs.local_stack.valkey import NativeValkey
from libs.tally.errors import ViewsUnavailable
from libs.views.valkey import client
from libs.views.valkey.client import Coalescer, Valkey, connect
from libs.views.valkey.connection import NotExecuted, NotPermitted
from libs.views.valkey.settings import ValkeySettings
from tests.support.eventually import eventually
from tests.support.servers.frozen_process import stopped
from tests.support.servers.loaded_valkey import once_executed
from tests.support.servers.own_valkey import own_valkey
from tests.support.servers.proxy import pump
from tests.support.servers.secured import Certificates, terminator

LIBRARY = """#!lua name=faulty
redis.register_function('writes_then_fails', function(keys)
  redis.call('SET', keys[1], 1)
  return redis.call('HSET', keys[1], 'field', 1)
end)
redis.register_function('writes_then_is_refused', function(keys)
  redis.call('SET', keys[1], 1)
  error({ err = 'OOM as a command of the function would be refused' })
end)
"""


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NativeValkey]:
    """A server of its own; each test leaves it running."""
    async with own_valkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
async def valkey(server: NativeValkey) -> AsyncIterator[Coalescer]:
    async with opened(server.address) as valkey:
        await valkey.call("FLUSHALL")
        yield valkey


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncIterator[Coalescer]:
    valkey = Coalescer(connect(ValkeySettings(valkey_url=url, **settings)))
    yield valkey
    await valkey.close()


def pid_of(server: NativeValkey) -> int:
    assert server.pid is not None
    return server.pid


async def error_of(call: Any) -> ViewsUnavailable:
    with pytest.raises(ViewsUnavailable) as raised:
        await asyncio.wait_for(call, 60)
    return raised.value


async def test_calls_in_flight_at_a_kill_are_of_unknown_outcome_and_later_ones_not_sent(
    valkey: Coalescer, server: NativeValkey
) -> None:
    await valkey.call("PING")
    with stopped(pid_of(server)):
        calls = [valkey.call("INCR", "counter") for _ in range(3)]
        await asyncio.sleep(0)
        await server.kill()
    for error in [await error_of(call) for call in calls]:
        assert not isinstance(error, NotExecuted)
    assert isinstance(await error_of(valkey.call("INCR", "counter")), NotExecuted)
    await server.start()
    assert await valkey.call("INCR", "counter") == 1  # nothing was sent again


async def test_a_command_whose_connection_is_closed_is_not_sent_again(valkey: Coalescer) -> None:
    number = await valkey.call("CLIENT", "ID")
    counted = valkey.call("INCR", "counter")
    closing = valkey.call("CLIENT", "KILL", "ID", number, "SKIPME", "no")
    after = valkey.call("INCR", "counter")
    assert await counted == 1
    assert await closing == 1
    assert not isinstance(await error_of(after), NotExecuted)
    assert await valkey.call("GET", "counter") == b"1"
    assert await valkey.call("CLIENT", "ID") != number


async def test_an_idle_connection_that_the_server_closed_costs_no_call(
    valkey: Coalescer, server: NativeValkey
) -> None:
    number = await valkey.call("CLIENT", "ID")
    async with opened(server.address) as other:
        assert await other.call("CLIENT", "KILL", "ID", number) == 1
    await eventually(lambda: not valkey._connections)
    assert await valkey.call("PING") == b"PONG"


async def test_a_stopped_server_answers_those_who_still_wait_when_it_goes_on(
    valkey: Coalescer, server: NativeValkey
) -> None:
    await valkey.call("PING")
    with stopped(pid_of(server)):
        calls = [valkey.call("INCR", "counter") for _ in range(3)]
        await asyncio.sleep(0)
        calls[1].cancel()
    assert (await calls[0], await calls[2]) == (1, 3)


async def test_a_connection_without_data_for_the_timeout_is_replaced(
    valkey: Coalescer, server: NativeValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = await valkey.call("CLIENT", "ID")
    with stopped(pid_of(server)):
        monkeypatch.setattr(client, "TIMEOUT_S", 0.2)
        assert not isinstance(await error_of(valkey.call("PING")), NotExecuted)
        assert isinstance(await error_of(valkey.call("PING")), NotExecuted)  # the log-in hangs too
    monkeypatch.undo()
    # not by a log-in that began with the short timeout
    assert await once_executed(lambda: valkey.call("CLIENT", "ID")) != number


async def test_a_refusal_by_the_server_or_its_access_control_list_is_definite(
    valkey: Coalescer, server: NativeValkey
) -> None:
    await valkey.call("CONFIG", "SET", "maxmemory", 1)
    try:
        assert isinstance(await error_of(valkey.call("SET", "key", 1)), NotExecuted)
    finally:
        await valkey.call("CONFIG", "SET", "maxmemory", 0)
    assert isinstance(await error_of(valkey.call("FCALL", "no_such_function", 0)), NotExecuted)
    await valkey.call("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+get")
    url = urlsplit(server.address)
    reader = url._replace(netloc=f"reader:secret@{url.hostname}:{url.port}").geturl()
    async with opened(reader) as limited:
        assert await limited.call("GET", "key") is None
        assert isinstance(await error_of(limited.call("SET", "key", 1)), NotPermitted)


async def test_an_error_inside_a_function_leaves_the_outcome_unknown(valkey: Coalescer) -> None:
    await valkey.call("FUNCTION", "LOAD", "REPLACE", LIBRARY)
    for function in "writes_then_fails", "writes_then_is_refused":
        await valkey.call("DEL", "key")
        error = await error_of(valkey.call("FCALL", function, 1, "key"))
        assert not isinstance(error, NotExecuted)
        assert await valkey.call("GET", "key") == b"1"


async def test_missing_functions_are_loaded_again_once(server: NativeValkey) -> None:
    loads = []

    async def load(valkey: Valkey) -> None:
        loads.append(await valkey.call("FUNCTION", "LOAD", "REPLACE", LIBRARY))

    valkey = Coalescer(connect(ValkeySettings(valkey_url=server.address)), repair=load)
    await valkey.call("FUNCTION", "FLUSH")
    errors = [valkey.call("FCALL", "writes_then_fails", 1, "key") for _ in range(5)]
    assert all(["Function not found" in str(await error_of(call)) for call in errors])

    async def is_loaded() -> bool:
        return "Function not found" not in str(await error_of(valkey.call("FCALL", "writes_then_fails", 1, "key")))

    await eventually(is_loaded)
    assert loads == [b"faulty"]
    await valkey.close()


async def test_user_and_database_are_those_of_the_url_and_wrong_ones_errors_of_the_call(
    valkey: Coalescer, server: NativeValkey
) -> None:
    url = urlsplit(server.address)
    async with opened(url._replace(path="/3").geturl()) as third:
        await third.call("SET", "key", "of the third")
        assert await third.call("GET", "key") == b"of the third"
    assert await valkey.call("GET", "key") is None
    stranger, lost = url._replace(netloc=f"default:wrong@{url.hostname}:{url.port}"), url._replace(path="/999")
    for wrong in (stranger, lost):
        async with opened(wrong.geturl()) as refused:
            assert isinstance(await error_of(refused.call("PING")), NotExecuted)


async def test_tls_and_its_certificates_come_from_the_settings(server: NativeValkey, tmp_path: Path) -> None:
    certificates, url = Certificates(tmp_path), urlsplit(server.address)
    assert url.port is not None
    with terminator(certificates, url.port, mutual=True) as port:
        secure = url._replace(scheme="rediss", netloc=f"default:{url.password}@127.0.0.1:{port}").geturl()
        files = {"valkey_ca_file": certificates.authority}
        async with opened(secure, **files, valkey_certificate_file=certificates.client) as known:
            assert await known.call("PING") == b"PONG"
        async with opened(secure, **files) as without_certificate:
            await error_of(without_certificate.call("PING"))
        async with opened(secure, valkey_certificate_file=certificates.client) as trusting_nobody:
            await error_of(trusting_nobody.call("PING"))


async def test_a_unix_socket_is_a_way_to_the_server_too(server: NativeValkey, tmp_path: Path) -> None:
    url = urlsplit(server.address)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection(url.hostname, url.port)
        await asyncio.gather(pump(reader, ours), pump(theirs, writer))

    listener = await asyncio.start_unix_server(serve, tmp_path / "socket")
    async with opened(f"unix://default:{url.password}@{tmp_path}/socket?db=3") as valkey:
        assert await valkey.call("PING") == b"PONG"
    listener.close()
