"""Packets that attack a server's reading of requests."""

import asyncio
import json
import signal
import sys
from contextlib import suppress

import pytest

from libs.web.server.http_connection import MOST_PIPELINED
from tests.libs.web.server.limited_app import HELLO, an_app, greet
from tests.support.servers.serving import Client, served

SERVER = """
import asyncio
from libs.web.server.http_service import serve
from libs.web.settings import HttpSettings
from libs.local_stack.ports import free_ports
from tests.libs.web.server.limited_app import an_app
[port] = free_ports(1)
print(port, flush=True)
asyncio.run(serve(an_app(), HttpSettings(port=port, drain_delay_s=0)))
"""


@pytest.mark.parametrize(
    "junk", [b"\r\n" * 40_000, b"GET /hello HTTP/1.1\r\nHost: h\r\n\r\n" * 3_000, b"x" * 80_000]
)
async def test_input_behind_a_pending_response_does_not_stop_the_process(junk: bytes) -> None:
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    try:
        port = int(await server.stdout.readline())
        async with asyncio.timeout(60):
            attacker = await _connect(port)
            attacker.send(b"GET /hello HTTP/1.1\r\nHost: h\r\n\r\n" + junk)
            with suppress(ConnectionError):
                await attacker.writer.drain()
            await greet(await _connect(port))
            server.send_signal(signal.SIGTERM)
            assert await server.wait() == 0
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()


async def _connect(port: int) -> Client:
    while True:
        with suppress(ConnectionRefusedError):
            return Client(*await asyncio.open_connection("127.0.0.1", port))
        await asyncio.sleep(0.02)


async def test_only_some_requests_may_wait_for_earlier_responses() -> None:
    """A hundred in one packet would take the turns of all other connections."""
    async with served(an_app()) as server:
        client = await server.open()
        client.send(HELLO * 100)
        for _ in range(1 + MOST_PIPELINED):
            assert await client.answer() == (200, b"hello")
        assert await client.rest() == b""
        patient = await server.open()
        for _ in range(100):
            await greet(patient)


async def test_a_fault_in_the_rest_of_an_answered_body_is_no_second_response() -> None:
    async with served(an_app()) as server:
        client = await server.open()
        client.send("POST /refuse HTTP/1.1\nHost: here\nTransfer-Encoding: chunked\n\n1\na\n")
        status, body = await client.answer()
        assert (status, json.loads(body)["code"]) == (401, "unauthorized")
        client.send("no chunk\n")
        assert await client.rest() == b""
        client.close()
