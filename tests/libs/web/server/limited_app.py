"""An app whose requests exceed the limits of a server, and its clients."""

import asyncio
import json

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from libs.contracts.limits import JSON_BODY
from libs.tally.errors import Overloaded
from libs.web.door.request_parsing import read_body
from libs.web.errors import Unauthorized
from libs.web.server.http_service import build_app
from tests.support.servers.serving import Client

HELLO = "GET /hello HTTP/1.1\nHost: here\n\n"


def an_app() -> FastAPI:
    app = build_app("bounds", [])

    async def hello(_: Request) -> Response:
        return Response(b"hello")

    async def read(request: Request) -> Response:
        return Response(str(len(await read_body(request.scope["headers"], request.receive, JSON_BODY))))

    async def refuse(_: Request) -> Response:
        raise Unauthorized("Before the body is read.")

    async def have_no_room(_: Request) -> Response:
        raise Overloaded("Before the body is read.", retry_after_s=1)

    app.router.add_route("/hello", hello)
    app.router.add_route("/read", read, methods=["POST"])
    app.router.add_route("/refuse", refuse, methods=["POST"])
    app.router.add_route("/busy", have_no_room, methods=["POST"])
    return app


def a_holding_app(going_on: asyncio.Event) -> FastAPI:
    """The same, whose `/hold` answers once `going_on` is set."""
    app = an_app()

    async def hold(_: Request) -> Response:
        await going_on.wait()
        return Response(b"held")

    app.router.add_route("/hold", hold)
    return app


async def refusal(client: Client) -> tuple[int, str]:
    """The answer, after which nothing comes but the end."""
    status, body = await client.answer()
    assert await client.rest() == b""
    client.close()
    return status, json.loads(body)["code"]


async def greet(client: Client) -> None:
    client.send(HELLO)
    assert await client.answer() == (200, b"hello")
