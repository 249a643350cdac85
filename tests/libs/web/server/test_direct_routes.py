"""A direct route answers plain requests without ASGI; all others get the same route's answer through ASGI."""

import asyncio
import logging
from collections.abc import Callable, Iterator

import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from libs.contracts.limits import JSON_BODY
from libs.tally.errors import LedgerCatchingUp, TallyError
from libs.telemetry.metrics import REGISTRY
from libs.web.door.request_parsing import read_body
from libs.web.errors import Forbidden
from libs.web.server.asgi_routes import DirectRoute
from libs.web.server.direct_routes import DirectCycle
from libs.web.server.http_service import HttpModule, build_app
from tests.support.eventually import eventually
from tests.support.serving import Client, served

BODY = b"ballot"


class Echo:
    """A route that answers with its name, its path parameter and the body; its `behaviour` may be replaced."""

    def __init__(self) -> None:
        self.behaviour: Callable[[DirectCycle], bool] = self.answer
        self.waiting: list[DirectCycle] = []
        self.refusal: TallyError | None = None

    def app(self) -> FastAPI:
        route = DirectRoute("/echo/{name}", echo, self.serve, self.start, 100, methods=["POST"])
        return build_app("direct", [HttpModule(hot=[route], refusal=lambda: self.refusal)])

    def start(self, cycle: DirectCycle) -> bool:
        return self.behaviour(cycle)

    def answer(self, cycle: DirectCycle) -> bool:
        body = b"direct %s %s" % (cycle.scope["path_params"]["name"].encode(), bytes(cycle.body))
        cycle.respond(200, [(b"content-length", b"%d" % len(body))], body)
        return True

    def hold(self, cycle: DirectCycle) -> bool:
        self.waiting.append(cycle)
        return True

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(scope["headers"], receive, JSON_BODY)
        body = b"asgi %s %s" % (scope["path_params"]["name"].encode(), body)
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


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

    def fail(_: DirectCycle) -> bool:
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


async def test_responses_have_the_headers_of_other_responses_and_are_measured() -> None:
    # the key is unknown, and only ASGI counts those
    async with served(Echo().app(), rate_per_address=0) as server:
        heads = []
        before = _measured()
        for path in ("/echo/a", "/echo/%61"):
            client = await server.open()
            client.send(request(path, BODY, "X-Request-Id: mine", "Authorization: Bearer key"))
            head = (await client.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            heads.append(sorted(line for line in head if not line.startswith(("date:", "content-length:"))))
            assert any(line.startswith("date:") for line in head)
            client.close()
        assert heads[0] == heads[1]
        assert _measured() == before + 2


async def test_a_stopping_server_finishes_direct_requests_also_of_clients_that_are_gone() -> None:
    route = Echo()
    route.behaviour = route.hold
    stopped = asyncio.Event()

    async def serve() -> None:
        async with served(route.app()) as server:
            clients.extend([await server.open(), await server.open()])
            for client in clients:
                client.send(request())
            await eventually(lambda: len(route.waiting) == 2)
            clients[0].close()
            await eventually(lambda: any(cycle.disconnected for cycle in route.waiting))
        stopped.set()

    clients: list[Client] = []
    serving = asyncio.create_task(serve())
    await eventually(lambda: any(not cycle.keep_alive for cycle in route.waiting))
    [gone] = [cycle for cycle in route.waiting if cycle.disconnected]
    [there] = [cycle for cycle in route.waiting if not cycle.disconnected]
    route.answer(there)
    assert await clients[1].answer() == (200, b"direct a ballot")
    assert await clients[1].rest() == b""
    assert not stopped.is_set()
    route.answer(gone)
    await serving


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
