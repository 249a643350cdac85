"""The service behind real proxies: as `deploy/guides/proxies.md` configures them, and as no page should."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from libs.contracts.limits import JSON_BODY
from libs.web.door.client_address import Proxies
from libs.web.door.request_parsing import read_body
from libs.web.server.http_service import build_app
from tests.deploy.proxies import CONFIGURATIONS, WEBSOCKETS_HAPROXY, WEBSOCKETS_NGINX, haproxy, nginx
from tests.support.programs import Programs
from tests.support.servers.serving import Served, served

Proxy = Callable[[Programs, Path, int], AbstractAsyncContextManager[int]]
PROXIES: Final[dict[str, Proxy]] = {
    "nginx": nginx,
    "haproxy": haproxy,
    "nginx that forwards Upgrade": lambda programs, folder, to: nginx(programs, folder, to, WEBSOCKETS_NGINX),
    "haproxy that forwards Upgrade": lambda programs, folder, to: haproxy(
        programs, folder, to, WEBSOCKETS_HAPROXY
    ),
}
OURS: Final = ["nginx", "haproxy"]
TRUSTED: Final = "127.0.0.1/32"
ATTACKS: Final = 30
PADDING: Final = "\r\n" * 20_000
"""Makes a body so large that nginx sends it apart from its head; no request, and so skipped by servers."""
PREFIX: Final = f"{PADDING}DELETE /contests/key HTTP/1.1\r\nHost: here\r\nX-Swallows: "
"""The begin of a request that the next caller's request would complete, with that one's key."""


class App:
    """Records requests: method, path and `Authorization`."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str]] = []
        self.going_on = asyncio.Event()

    def app(self) -> FastAPI:
        app = build_app("behind a proxy", [])
        app.router.add_route("/address", self.address)
        app.router.add_route("/stream", self.stream)
        app.router.add_route("/{path:path}", self.record, methods=["GET", "POST", "DELETE"])
        return app

    async def address(self, request: Request) -> Response:
        end_user = Proxies(TRUSTED).end_user(request.scope)
        return JSONResponse([end_user, sorted(request.headers), request.headers["host"]])

    async def stream(self, _: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            yield b"data: first\n\n"
            await self.going_on.wait()
            yield b"data: second\n\n"

        headers = {"X-Accel-Buffering": "no", "Content-Type": "text/event-stream"}
        return StreamingResponse(parts(), headers=headers)

    async def record(self, request: Request) -> Response:
        await read_body(request.scope["headers"], request.receive, JSON_BODY)
        self.seen.append((request.method, request.url.path, request.headers.get("authorization", "")))
        return Response(request.method.encode())


@asynccontextmanager
async def behind(name: str, app: App, programs: Programs, folder: Path) -> AsyncIterator[Served]:
    """Serve the app behind the proxy `name`; clients of the context's value connect to the proxy."""
    async with (
        served(app.app(), trusted_proxies=TRUSTED) as server,
        PROXIES[name](programs, folder, server.port) as port,
    ):
        yield Served(server.server, port)


@pytest.mark.parametrize("name", OURS)
async def test_the_caller_s_address_is_the_one_that_the_proxy_saw(
    name: str, programs: Programs, tmp_path: Path
) -> None:
    async with behind(name, App(), programs, tmp_path) as proxy:
        client = await proxy.open("127.0.0.2")
        client.send(
            "GET /address HTTP/1.1\nHost: votes.example:8000\nX-Forwarded-For: 192.0.2.1, 127.0.0.1\n"
            "Forwarded: for=192.0.2.1\nConnection: Upgrade\nUpgrade: h2c\n\n"
        )
        status, body = await client.answer()
        assert status == 200, body
        end_user, headers, host = json.loads(body)
        assert (end_user, host) == ("127.0.0.2", "votes.example:8000")
        assert "x-forwarded-proto" in headers
        assert not {"upgrade", "forwarded"} & set(headers)
        client.close()


@pytest.mark.parametrize("name", OURS)
async def test_the_events_of_a_stream_arrive_one_by_one(name: str, programs: Programs, tmp_path: Path) -> None:
    app = App()
    async with behind(name, app, programs, tmp_path) as proxy:
        client = await proxy.open()
        client.send("GET /stream HTTP/1.1\nHost: here\n\n")
        async with asyncio.timeout(60):
            await client.reader.readuntil(b"data: first\n\n")
            app.going_on.set()
            await client.reader.readuntil(b"data: second\n\n")
        client.close()


@pytest.mark.parametrize("name", PROXIES)
async def test_nobody_speaks_with_another_s_voice(name: str, programs: Programs, tmp_path: Path) -> None:
    app = App()
    async with behind(name, app, programs, tmp_path) as proxy:
        for number in range(ATTACKS):
            attacker, victim = await proxy.open(), await proxy.open()
            attacker.send(
                "POST /attack HTTP/1.1\nHost: here\nConnection: Upgrade\nUpgrade: websocket\n"
                f"Content-Length: {len(PREFIX)}\n\n"
            )
            attacker.send(PREFIX.encode())
            assert await attacker.answer() == (200, b"POST")
            victim.send(f"GET /mine HTTP/1.1\nHost: here\nAuthorization: Bearer {number}\n\n")
            assert await victim.answer() == (200, b"GET")
            attacker.close()
            victim.close()
    assert [request for request in app.seen if request[1] != "/attack"] == [
        ("GET", "/mine", f"Bearer {number}") for number in range(ATTACKS)
    ]
    assert {request for request in app.seen if request[1] == "/attack"} == {("POST", "/attack", "")}


def test_the_configurations_that_no_test_runs_say_so() -> None:
    for file in CONFIGURATIONS.iterdir():
        is_run = file.name in ("nginx.conf", "haproxy.cfg")
        assert is_run is ("not tried" not in file.read_text()), file.name
