"""Packets that attack a server's reading of requests."""

import asyncio
import json
import signal
import sys
from contextlib import suppress

import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from libs.web.door.request_parsing import read_body
from libs.web.server.http_connection import MOST_PIPELINED
from libs.web.server.http_service import build_app
from tests.libs.web.server.limited_app import HELLO, an_app, greet, refusal
from tests.support.serving import Client, served

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
AMONG_THE_FIRST = "POST /echo HTTP/1.1\nHost: here\n"
SMUGGLED = "DELETE /victim HTTP/1.1\r\nHost: here\r\n\r\n"


def an_echo() -> FastAPI:
    """An app that answers with its method, its path and its body."""
    app = build_app("echo", [])

    async def echo(request: Request) -> Response:
        body = await read_body(request.scope["headers"], request.receive)
        return Response(f"{request.method} {request.url.path} ".encode() + body)

    app.router.add_route("/{path:path}", echo, methods=["GET", "POST", "DELETE"])
    return app


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


async def test_a_response_is_sent_also_where_junk_follows_the_request() -> None:
    async with served(an_app()) as server:
        for junk in ("\n" * 40_000, "junk", "GET /\xff HTTP/1.1\n\n"):
            client = await server.open()
            client.send(HELLO + junk)
            assert await client.answer() == (200, b"hello")
            assert (await client.rest())[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 431")
            client.close()


async def test_a_malformed_request_is_not_answered_in_place_of_an_earlier_one() -> None:
    going_on = asyncio.Event()
    app = an_app()

    async def hold(_: Request) -> Response:
        await going_on.wait()
        return Response(b"held")

    app.router.add_route("/hold", hold)
    async with served(app) as server:
        for second in ("GET /caf\xe9 HTTP/1.1\nHost: h\n\n", "GET // HTTP/9.9\nHost: h\n\n", "\x16\x03\x01"):
            going_on.clear()
            client = await server.open()
            client.send("GET /hold HTTP/1.1\nHost: h\n\n" + second)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.reader.read(1), 0.1)
            going_on.set()
            assert await client.answer() == (200, b"held")
            assert await client.rest() == b""
            client.close()


@pytest.mark.parametrize("upgrade", ["websocket", "h2c", "TLS/1.0", "x"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("is_split", [False, True])
async def test_the_body_of_a_request_to_upgrade_is_its_body(upgrade: str, framing: str, is_split: bool) -> None:
    head = f"{AMONG_THE_FIRST}Connection: keep-alive, Upgrade\nUpgrade: {upgrade}\n"
    if framing == "length":
        head, body = f"{head}Content-Length: {len(SMUGGLED)}\n\n", SMUGGLED
    else:
        head, body = f"{head}Transfer-Encoding: chunked\n\n", f"{len(SMUGGLED):x}\r\n{SMUGGLED}\r\n0\r\n\r\n"
    async with served(an_echo()) as server:
        client = await server.open()
        client.send(head)
        if is_split:
            await client.writer.drain()
            await asyncio.sleep(0.01)
        client.send(body.encode() + SMUGGLED.encode())
        assert await client.answer() == (200, b"POST /echo " + SMUGGLED.encode())
        assert await client.rest() == b""
        client.close()


async def test_nothing_is_read_behind_a_request_to_upgrade_without_a_body() -> None:
    async with served(an_echo()) as server:
        client = await server.open()
        client.send("GET /first HTTP/1.1\nHost: here\nConnection: Upgrade\nUpgrade: websocket\n\n" + SMUGGLED)
        assert await client.answer() == (200, b"GET /first ")
        assert await client.rest() == b""
        client.close()


@pytest.mark.parametrize(
    "request_line_and_headers",
    [
        "GET /hello HTTP/1.1\n",
        "GET /hello HTTP/1.1\nHost: a\nHost: a\n",
        "GET /hello HTTP/1.1\nHost: a\nhost: b\n",
        "GET /hello HTTP/1.0\nHost: a\nHost: b\n",
        "GET /hello\n",
        "GET /hello HTTP/0.9\nHost: a\n",
        "GET /hello HTTP/2.0\nHost: a\n",
        "GET /hello HTTP/1.2\nHost: a\n",
        "CONNECT here:80 HTTP/1.1\nHost: here:80\n",
        "POST /hello HTTP/1.0\nTransfer-Encoding: chunked\n",
        "POST /hello HTTP/1.1\nHost: a\nTransfer-Encoding: gzip, chunked\n",
        "POST /hello HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\nContent-Length: 1\n",
        "POST /hello HTTP/1.1\nHost: a\nContent-Length: 1\nContent-Length: 1\n",
    ],
)
async def test_a_request_that_servers_read_differently_is_400(request_line_and_headers: str) -> None:
    async with served(an_app()) as server:
        client = await server.open()
        client.send(request_line_and_headers + "\n")
        assert await refusal(client) == (400, "bad_request")


async def test_a_fault_in_the_rest_of_an_answered_body_is_no_second_response() -> None:
    async with served(an_app()) as server:
        client = await server.open()
        client.send("POST /refuse HTTP/1.1\nHost: here\nTransfer-Encoding: chunked\n\n1\na\n")
        status, body = await client.answer()
        assert (status, json.loads(body)["code"]) == (401, "unauthorized")
        client.send("no chunk\n")
        assert await client.rest() == b""
        client.close()
