"""Limits of a running server: size, duration and number, and their effect on other clients."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from libs.contracts.limits import JSON_BODY
from libs.web.door.request_parsing import read_body
from tests.libs.web.server.limited_app import HELLO, a_holding_app, an_app, greet, refusal
from tests.support.clients.metrics import refusals
from tests.support.eventually import eventually
from tests.support.servers.serving import Client, served

ASKED = "GET /hello HTTP/1.1\nHost: here\n"


@pytest.mark.parametrize(
    "text",
    [
        ASKED + "X: " + "a" * 40_000 + "\n\n",
        ASKED + "X: " + "a" * 40_000,
        "GET /" + "a" * 40_000,
        ASKED + "X: y\n" * 101 + "\n",
        ASKED + "X: y\n" * 7_000 + "\n",
        "POST /read HTTP/1.1\nHost: here\nTransfer-Encoding: chunked\n\n1\na\n0\nX: " + "a" * 400_000,
        "POST /read HTTP/1.1\nHost: here\nTransfer-Encoding: chunked\n\n1;" + "a" * 400_000,
    ],
)
async def test_headers_beyond_the_bounds_are_431(text: str) -> None:
    async with served(an_app()) as server:
        client = await server.open()
        client.send(text)
        assert await refusal(client) == (431, "headers_too_large")


async def test_headers_within_the_bounds_are_taken_however_they_come() -> None:
    text = "POST /read HTTP/1.1\nHost: here\nContent-Length: 300000\n" + "X: y\n" * 98 + "\n"
    async with served(an_app()) as server:
        client = await server.open()
        for body in (b"a" * 300_000, b"b" * 300_000):
            client.send(text)
            client.send(body)
            assert await client.answer() == (200, b"300000")
        for character in HELLO:
            client.send(character)
            await client.writer.drain()
        assert await client.answer() == (200, b"hello")
        client.send(HELLO * 3)
        assert [await client.answer() for _ in range(3)] == [(200, b"hello")] * 3
        client.close()


async def test_what_is_not_http_is_a_problem_of_its_own() -> None:
    async with served(an_app()) as server:
        client = await server.open()
        client.send("\x16\x03\x01 hello\n\n")
        assert await refusal(client) == (400, "bad_request")


async def test_half_a_request_is_408_and_nothing_at_all_is_closed() -> None:
    async with served(an_app(), http_header_timeout_s=1) as server:
        silent, half, second = [await server.open() for _ in range(3)]
        half.send("GET /hello HTTP/1.1\nHost:")
        await greet(second)
        second.send("G")
        assert await silent.rest() == b""
        assert await refusal(half) == (408, "request_timeout")
        assert await refusal(second) == (408, "request_timeout")
        await eventually(lambda: len(server.server.connection_limits) == 0)


@pytest.mark.parametrize(
    ("path", "is_open"),
    [
        ("/public/contests/a/results", True),
        ("/files/a/content/?token=b", True),
        ("/hello?/public/", False),
        ("/files/a", False),
    ],
)
@pytest.mark.parametrize(("rest", "status"), [("Host:", 408), ("X: y\n" * 101 + "\n", 431)])
async def test_pages_of_other_origins_can_read_a_refusal_where_they_can_read_an_answer(
    path: str, is_open: bool, rest: str, status: int
) -> None:
    async with served(an_app(), http_header_timeout_s=0.2 if status == 408 else 30) as server:
        client = await server.open()
        client.send(f"GET {path} HTTP/1.1\n{rest}")
        head = (await client.rest()).partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
        client.close()
    assert head[0].split()[1] == str(status).encode()
    assert (b"access-control-allow-origin: *" in head) is is_open


async def test_who_sends_a_byte_at_a_time_gets_no_more_time() -> None:
    async with served(an_app(), http_header_timeout_s=0.3) as server:
        client = await server.open()

        async def trickle() -> None:
            while True:
                client.send("GET /hello HTTP/1.1\nHost: " if not sent else "a")
                sent.append(1)
                await asyncio.sleep(0.02)

        sent: list[int] = []
        trickling = asyncio.create_task(trickle())
        assert (await client.answer())[0] == 408
        trickling.cancel()
        client.close()


async def test_a_body_below_its_least_rate_is_408_and_one_above_it_may_take_long() -> None:
    async def send(client: Client, size: int) -> None:
        for _ in range(0, 100_000, size):
            client.send(b"a" * size)
            await asyncio.sleep(0.05)

    async def ask(client: Client, size: int) -> int:
        client.send("POST /read HTTP/1.1\nHost: here\nContent-Length: 100000\n\n")
        sending = asyncio.create_task(send(client, size))
        status, _ = await client.answer()
        sending.cancel()
        client.close()
        return status

    async with served(an_app(), http_body_timeout_s=4, http_body_min_rate=5_000) as server:
        slow, fast = await server.open(), await server.open()
        assert await asyncio.gather(ask(slow, 100), ask(fast, 5000)) == [408, 200]


async def test_time_that_the_service_takes_is_none_of_the_clients() -> None:
    app = an_app()
    going_on = asyncio.Event()

    async def hesitate(request: Request) -> Response:
        await going_on.wait()
        return Response(str(len(await read_body(request.scope["headers"], request.receive, JSON_BODY))))

    app.router.add_route("/hesitate", hesitate, methods=["POST"])
    async with served(app, http_body_timeout_s=1) as server:
        client = await server.open()
        client.send("POST /hesitate HTTP/1.1\nHost: here\nContent-Length: 900000\n\n")
        client.send(b"a" * 900_000)
        connection: Any
        (connection,) = server.server.server_state.connections
        await eventually(lambda: bool(connection.flow.read_paused))
        await asyncio.sleep(1.3)
        going_on.set()
        assert await client.answer() == (200, b"900000")
        client.close()


async def test_one_address_has_its_share_of_the_connections() -> None:
    async with served(an_app(), http_max_connections_per_address=3) as server:
        first = [await server.open() for _ in range(3)]
        await greet(first[0])
        assert await refusal(await server.open()) == (503, "overloaded")
        other = await server.open("127.0.0.2")
        await greet(other)
        first[0].close()
        await eventually(lambda: len(server.server.connection_limits) == 3)
        await greet(await server.open())


async def test_a_trusted_proxy_is_no_single_address() -> None:
    async with served(an_app(), http_max_connections_per_address=1, trusted_proxies="127.0.0.0/8") as server:
        for client in [await server.open() for _ in range(5)]:
            await greet(client)


async def test_who_waits_longest_between_requests_makes_room_for_others() -> None:
    going_on = asyncio.Event()
    async with served(a_holding_app(going_on), http_max_connections=3) as server:
        busy = await server.open()
        busy.send("GET /hold HTTP/1.1\nHost: here\n\n")
        await eventually(lambda: len(server.server.server_state.tasks) == 1)
        idle = [await server.open() for _ in range(2)]
        await greet(idle[0])
        await greet(idle[1])
        newest = await server.open()
        await greet(newest)
        assert await idle[0].rest() == b""
        await greet(idle[1])
        going_on.set()
        assert await busy.answer() == (200, b"held")


async def test_where_every_connection_is_at_work_one_more_is_503() -> None:
    going_on = asyncio.Event()
    async with served(a_holding_app(going_on), http_max_connections=2) as server:
        busy = [await server.open() for _ in range(2)]
        for client in busy:
            client.send("GET /hold HTTP/1.1\nHost: here\n\n")
        await eventually(lambda: len(server.server.server_state.tasks) == 2)
        refused = await server.open()
        refused.send(HELLO)
        assert await refusal(refused) == (503, "overloaded")
        going_on.set()
        for client in busy:
            assert await client.answer() == (200, b"held")


async def test_idle_and_slow_connections_are_bounded_and_others_are_served() -> None:
    async with served(an_app(), http_max_connections=200) as server:
        attackers = []
        begun = "", "GET /hello HTTP/1.1\nHost: h", "POST /read HTTP/1.1\nContent-Length: 9\n\na"
        for number in range(500):
            client = await server.open(f"127.0.1.{number % 250 + 1}")
            client.send(begun[number % 3])
            attackers.append(client)
            if number % 50 == 0:
                voter = await server.open("127.0.0.9")
                await greet(voter)
                voter.close()
        assert len(server.server.connection_limits) <= 200
        assert len(server.server.server_state.connections) <= 200
        for client in attackers:
            client.close()
        await eventually(lambda: len(server.server.connection_limits) == 0)


async def test_each_refusal_is_counted_by_its_reason() -> None:
    reasons = "connections", "evicted", "headers", "deadline"
    before = Counter({reason: refusals(reason) for reason in reasons})
    async with served(an_app(), http_max_connections_per_address=1, http_header_timeout_s=1) as server:
        slow, large = await server.open(), await server.open("127.0.0.2")
        assert await refusal(await server.open()) == (503, "overloaded")
        slow.send("GET /hello HTTP/1.1\n")
        large.send("GET /" + "a" * 40_000)
        assert await refusal(large) == (431, "headers_too_large")
        assert await refusal(slow) == (408, "request_timeout")
    async with served(an_app(), http_max_connections=1) as server:
        idle = await server.open()
        await greet(idle)
        await greet(await server.open())
        assert await idle.rest() == b""
    assert Counter({reason: refusals(reason) for reason in reasons}) - before == Counter(reasons)
