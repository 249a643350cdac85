"""Refusals of requests with large bodies reach clients that are still sending."""

import asyncio
import http.client
import socket
import subprocess
from collections.abc import Callable
from contextlib import closing

import httpx
import pytest
import requests

from tests.libs.web.server.limited_app import an_app, greet
from tests.support.programs import CURL, Programs
from tests.support.servers.serving import served

MIB = 1 << 20


def by_httpx(url: str, body: bytes) -> int:
    return httpx.post(url, content=body, trust_env=False).status_code


def by_httpx_in_chunks(url: str, body: bytes) -> int:
    pieces = (body[at : at + 65_536] for at in range(0, len(body), 65_536))
    return httpx.post(url, content=pieces, trust_env=False).status_code


def by_requests(url: str, body: bytes) -> int:
    with requests.Session() as session:
        session.trust_env = False
        return session.post(url, data=body, timeout=30).status_code


def by_http_client(url: str, body: bytes) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", httpx.URL(url).port)) as connection:
        connection.request("POST", httpx.URL(url).path, body, {"Connection": "close"})
        return connection.getresponse().status


def by_a_plain_socket(url: str, body: bytes) -> int:
    """Sends everything before it reads, as many small clients do."""
    with socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0)) as connection:
        path = httpx.URL(url).path
        connection.sendall(f"POST {path} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        return int(connection.makefile("rb").readline().split()[1])


def by_curl(url: str, body: bytes, *options: str) -> int:
    command = ["curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--max-time", "30"]
    command += ["--data-binary", "@-", *options, url]
    return int(subprocess.run(command, input=body, stdout=subprocess.PIPE, check=True).stdout)


def by_curl_that_sends_at_once(url: str, body: bytes) -> int:
    """Without waiting for 100 Continue."""
    return by_curl(url, body, "--header", "Expect:")


OF_CURL = [by_curl, by_curl_that_sends_at_once]
CLIENTS = [by_httpx, by_httpx_in_chunks, by_requests, by_http_client, by_a_plain_socket, *OF_CURL]


@pytest.fixture(params=CLIENTS)
def ask(request: pytest.FixtureRequest, programs: Programs) -> Callable[[str, bytes], int]:
    client: Callable[[str, bytes], int] = request.param
    if client in OF_CURL:
        programs.path(CURL)
    return client


async def test_a_refusal_reaches_who_is_still_sending(ask: Callable[[str, bytes], int]) -> None:
    async with served(an_app()) as server:
        for size in (MIB + 100_000, 9 * MIB):
            for path, status in (("/read", 413), ("/refuse", 401), ("/busy", 503), ("/nowhere", 404)):
                assert await asyncio.to_thread(ask, f"{server.url}{path}", b"a" * size) == status, (path, size)


async def test_who_sends_a_body_on_one_connection_too_many_reads_why(ask: Callable[[str, bytes], int]) -> None:
    async with served(an_app(), http_max_connections_per_address=1) as server:
        holder = await server.open()
        await greet(holder)
        for size in (1, MIB, 9 * MIB):
            assert await asyncio.to_thread(ask, f"{server.url}/read", b"a" * size) == 503, size


async def test_a_connection_goes_on_after_a_body_that_was_refused() -> None:
    async with served(an_app()) as server:
        client = await server.open()
        client.send(f"POST /refuse HTTP/1.1\nHost: here\nContent-Length: {3 * MIB}\n\n")
        client.send(b"a" * 3 * MIB)
        assert (await client.answer())[0] == 401
        await greet(client)
        client.close()
