"""A direct route answers plain requests without ASGI; all others get the same route's answer through ASGI."""

import asyncio
import logging
from collections.abc import Iterator
from contextvars import ContextVar

import pytest
from fastapi import FastAPI

from libs.contracts.limits import JSON_BODY
from libs.tally.errors import LedgerCatchingUp, TallyError
from libs.telemetry.metrics import REGISTRY
from libs.web.errors import Forbidden
from libs.web.server import http_service
from libs.web.server.asgi_routes import HotRoute
from libs.web.server.direct_routes import DirectCycle, DirectRoutes
from libs.web.server.hot_requests import Handler, HotRequest, Reply
from libs.web.server.http_service import HttpModule, build_app
from libs.web.server.metrics import RequestTimes
from tests.libs.web.server.driven_connection import Driver
from tests.support.eventually import eventually
from tests.support.servers.serving import Client, served

BODY = b"ballot"


class Echo:
    """A route that replies with its name, its path parameter and the body; its `behaviour` may be replaced."""

    def __init__(self) -> None:
        self.behaviour: Handler = self.answer
        self.waiting: list[DirectCycle] = []
        self.may_end = asyncio.Event()
        self.refusal: TallyError | None = None

    def route(self) -> HotRoute:
        return HotRoute("/echo/{name}", echo, self.reply, 100, methods=["POST"])

    def app(self) -> FastAPI:
        return build_app("direct", [HttpModule(hot=[self.route()], refusal=lambda: self.refusal)])

    async def reply(self, request: HotRequest) -> Reply:
        return await self.behaviour(request)

    async def answer(self, request: HotRequest) -> Reply:
        kind = "direct" if isinstance(request, DirectCycle) else "asgi"
        name, body = request.scope["path_params"]["name"], await request.read(JSON_BODY)
        return text(b"%s %s %s" % (kind.encode(), name.encode(), body))

    async def wait_then_answer(self, request: HotRequest) -> Reply:
        for _ in range(3):
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
        return await self.answer(request)

    async def hold(self, request: HotRequest) -> Reply:
        assert isinstance(request, DirectCycle)
        self.waiting.append(request)
        await self.may_end.wait()
        return await self.answer(request)


def text(body: bytes) -> Reply:
    return Reply(200, [(b"content-length", b"%d" % len(body))], body)


def echo(name: str) -> None:
    """Echo."""


def request(path: str = "/echo/a", body: bytes = BODY, *headers: str, http: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{http}", "Host: here", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def answer_to(route: Echo, *parts: bytes) -> tuple[int, bytes]:
    """The answer to a request that is sent in these parts, the second after 100 Continue."""
    async with served(route.app()) as server:
        client = await server.open()
        client.send(parts[0])
        for part in parts[1:]:
            assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send(part)
        answer = await client.answer()
        client.close()
    return answer


async def test_a_plain_request_is_answered_directly_and_another_follows_on_the_connection() -> None:
    names = {"/echo/a": b"a", "/echo/b_-2": b"b_-2", "/echo/a/": b"a", "/echo/a?b=%2F": b"a"}
    async with served(Echo().app()) as server:
        client = await server.open()
        for path, name in names.items():
            client.send(request(path))
            assert await client.answer() == (200, b"direct %s ballot" % name)
        client.close()


def test_a_reply_that_waits_for_nothing_is_sent_at_once_without_a_task() -> None:
    async def serve() -> None:
        driver = Driver(None, DirectRoutes([Echo().route()], (), None, RequestTimes()))
        connection, socket = driver.connect()
        connection.data_received(request())
        assert socket.writes[-1].endswith(b"direct a ballot")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(serve())


async def test_a_handler_may_wait_and_others_are_served_meanwhile() -> None:
    route = Echo()
    route.behaviour = route.hold
    async with served(route.app()) as server:
        held, other = await server.open(), await server.open()
        held.send(request())
        await eventually(lambda: route.waiting)
        route.behaviour = route.wait_then_answer
        other.send(request("/echo/b"))
        assert await other.answer() == (200, b"direct b ballot")
        route.may_end.set()
        assert await held.answer() == (200, b"direct a ballot")
        held.close()
        other.close()


async def test_what_a_request_sets_in_its_context_does_not_reach_the_next_one() -> None:
    variable, seen = ContextVar("variable", default=""), list[str]()
    route = Echo()

    async def reply(request: HotRequest) -> Reply:
        seen.append(variable.get())
        variable.set("set")
        await asyncio.sleep(0)
        seen.append(variable.get())
        return await route.answer(request)

    route.behaviour = reply
    async with served(route.app()) as server:
        client = await server.open()
        client.send(request() + request())
        assert [(await client.answer())[0] for _ in range(2)] == [200, 200]
        client.close()
    assert seen == ["", "set"] * 2


HEAD, _, _ = request("/echo/a", BODY, "Expect: 100-continue").partition(BODY)


@pytest.mark.parametrize(
    "parts",
    [
        [request("/echo/%61")],
        [request(body=b"b" * 101)],
        [request("/echo/a", BODY, "Connection: close")],
        [request("/echo/a", BODY, "Connection: keep-alive", http="1.0")],
        [b"POST /echo/a HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nballot\r\n0\r\n\r\n"],
        [HEAD, BODY],
    ],
)
async def test_any_other_request_is_answered_through_asgi(parts: list[bytes]) -> None:
    status, body = await answer_to(Echo(), *parts)
    assert (status, body[:7]) == (200, b"asgi a ")


async def test_a_process_that_refuses_all_requests_refuses_direct_ones() -> None:
    route = Echo()
    route.refusal = LedgerCatchingUp("Not now.", retry_after_s=1)
    status, body = await answer_to(route, request())
    assert (status, b"ledger_catching_up" in body) == (503, True)


async def test_errors_are_problems_with_the_request_s_id(caplog: pytest.LogCaptureFixture) -> None:
    errors: Iterator[Exception] = iter(
        [Forbidden("votes:write"), ZeroDivisionError("in the handler"), MemoryError()]
    )
    route = Echo()

    async def fail(_: HotRequest) -> Reply:
        raise next(errors)

    route.behaviour = fail
    async with served(route.app()) as server:
        client = await server.open()
        for status, code in ((403, b"forbidden"), (500, b"internal_error"), (503, b"overloaded")):
            client.send(request("/echo/a", BODY, "X-Request-Id: mine"))
            answer = await client.answer()
            assert answer[0] == status
            assert code in answer[1]
            assert b'"request_id":"mine"' in answer[1]
            assert b"ZeroDivision" not in answer[1]
        client.close()
    # what earlier tests left behind in the process is logged, too, by others
    logged = [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.ERROR and record.name.startswith("libs.web.")
    ]
    assert ["request mine to /echo/a failed" in line for line in logged] == [True, True]


async def test_callers_without_a_key_are_counted_and_refused_before_they_are_served() -> None:
    route, served_names = Echo(), list[str]()

    async def reply(request: HotRequest) -> Reply:
        served_names.append(request.scope["path_params"]["name"])
        return await route.answer(request)

    route.behaviour = reply
    async with served(route.app(), rate_per_address=1) as server:
        client = await server.open()
        statuses = []
        while 429 not in statuses:  # ten in ten seconds
            client.send(request("/echo/b"))
            statuses.append((await client.answer())[0])
        client.close()
    assert statuses[:-1] == [200] * len(served_names)


@pytest.mark.parametrize("headers", [(), ("Authorization: Bearer key",)])
async def test_responses_have_the_headers_of_other_responses_and_are_measured(headers: tuple[str, ...]) -> None:
    async with served(Echo().app()) as server:
        heads = []
        before = _measured()
        for path in ("/echo/a", "/echo/%61"):
            client = await server.open()
            client.send(request(path, BODY, "X-Request-Id: mine", *headers))
            head = (await client.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            own = ("date:", "content-length:", "ratelimit:")
            assert any(line.startswith("ratelimit:") for line in head)
            heads.append(sorted(line for line in head if not line.startswith(own)))
            assert any(line.startswith("date:") for line in head)
            client.close()
        assert heads[0] == heads[1]
        assert _measured() == before + 2


async def test_a_stopping_server_finishes_direct_requests_also_of_clients_that_are_gone() -> None:
    route = Echo()
    route.behaviour = route.hold
    clients: list[Client] = []

    async def serve() -> None:
        async with served(route.app()) as server:
            clients.extend([await server.open(), await server.open()])
            for client in clients:
                client.send(request())
            await eventually(lambda: len(route.waiting) == 2)
            clients[0].close()
            await eventually(lambda: any(cycle.disconnected for cycle in route.waiting))

    serving = asyncio.create_task(serve())
    await eventually(lambda: any(not cycle.keep_alive for cycle in route.waiting))
    assert not serving.done()
    route.may_end.set()
    assert await clients[1].answer() == (200, b"direct a ballot")
    assert await clients[1].rest() == b""
    await serving
    assert all(cycle.response_complete for cycle in route.waiting)


async def test_who_still_waits_at_the_end_of_the_drain_is_told_to_send_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_service, "DRAIN_S", 0.2)
    route = Echo()
    route.behaviour = route.hold
    async with served(route.app()) as server:
        client = await server.open()
        client.send(request())
        await eventually(lambda: route.waiting)
    status, body = await asyncio.wait_for(client.answer(), 60)
    assert (status, b"log_unavailable" in body) == (503, True)


async def test_a_client_that_leaves_before_its_body_is_complete_does_not_delay_the_stop() -> None:
    async with served(Echo().app()) as server:
        state = server.server.server_state
        client = await server.open()
        client.send(request()[:-1])
        await eventually(lambda: any(getattr(each, "cycle", None) is not None for each in state.connections))
        client.close()
        await eventually(lambda: not state.connections)
        assert not state.tasks


def _measured() -> float:
    labels = {"method": "POST", "route": "/echo/{name}", "status": "200"}
    return REGISTRY.get_sample_value("tally_http_request_duration_seconds_count", labels) or 0.0
