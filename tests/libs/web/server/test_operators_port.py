"""The operators' paths, on a port of their own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from libs.local_stack.ports import free_ports
from libs.web.responses import OncePerSecond
from libs.web.server.background_server import serve_in_background
from libs.web.server.http_service import HttpModule, build_app
from libs.web.settings import HttpSettings
from tests.support.clients.http_clients import http_client
from tests.support.servers.serving import served

HIDDEN = ("/metrics", "/metrics/", "/operations/status", "/operations/contests/c/reopen")
SHOWN = ("/contests/c/reopen", "/operations/purchases", "/livez", "/readyz", "/contests")


def an_app() -> FastAPI:
    async def fine() -> None: ...

    app = build_app("operators", [HttpModule(checks={"log": fine})])

    async def answer(_: Request) -> Response:
        return Response(b"here")

    for path in (*HIDDEN[2:], "/contests/c/reopen", "/operations/purchases", "/contests"):
        app.router.add_route(path, answer)
    return app


@asynccontextmanager
async def both(**settings: object) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """Clients of the front, and of the operators' port."""
    (port,) = free_ports(1)
    async with (
        served(an_app(), operations_port=port, **settings) as server,
        serve_in_background(server.server.operations, HttpSettings(), "127.0.0.1", port),
        http_client(base_url=server.url) as front,
        http_client(base_url=f"http://127.0.0.1:{port}") as operators,
    ):
        yield front, operators


async def test_operators_have_everything_at_their_port_and_others_nothing_of_theirs() -> None:
    async with both() as (front, operators):
        for path in HIDDEN:
            hidden = await front.get(path)
            assert (hidden.status_code, hidden.json()["code"]) == (404, "not_found"), path
            assert (await operators.get(path)).status_code == 200, path
        for path in SHOWN:
            assert (await front.get(path)).status_code == 200, path
            assert (await operators.get(path)).status_code == 200, path
        assert (await front.get("/readyz")).json() == {"ready": True, "dependencies": {}}
        assert (await operators.get("/readyz")).json() == {"ready": True, "dependencies": {"log": "ready"}}


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"host": "127.0.0.1"}, True),
        ({"host": "::1"}, True),
        ({"host": "localhost"}, True),
        ({"host": "0.0.0.0"}, False),
        ({"host": "tally.example"}, False),
        ({"host": "127.0.0.1", "operations_port": 9465}, False),
        ({"host": "127.0.0.1", "reuse_port": True}, False),  # several gateways share it
    ],
    ids=str,
)
def test_without_a_port_of_their_own_operators_are_served_on_loopback(
    settings: dict[str, Any], shown: bool
) -> None:
    assert HttpSettings(**settings).shows_operations is shown


async def test_many_who_ask_at_once_or_within_a_second_cost_one_look() -> None:
    now, looks, going_on = [0.0], 0, asyncio.Event()

    async def look() -> int:
        nonlocal looks
        looks += 1
        await going_on.wait()
        return looks

    latest = OncePerSecond(look, lambda: now[0])
    asking = [asyncio.create_task(latest.get()) for _ in range(10)]
    await asyncio.sleep(0)
    asking.pop().cancel()
    now[0] = 1.5
    asking.append(asyncio.create_task(latest.get()))
    await asyncio.sleep(0)
    going_on.set()
    assert await asyncio.gather(*asking) == [1] * 10
    assert await latest.get() == 2
    now[0] = 2.4
    assert await latest.get() == 2
    now[0] = 2.5
    assert await latest.get() == 3
