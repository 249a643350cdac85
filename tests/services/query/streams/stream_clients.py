"""The query service behind its real server, and clients of its streams."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from libs.web.server.asgi_routes import AsgiRoute
from libs.web.server.http_middleware import HttpMiddleware
from libs.web.server.http_service import HttpServer
from libs.web.settings import HttpSettings
from tests.services.query.query_environment import QueryEnvironment
from tests.support.http_clients import http_client

DEADLINE_S = 60.0
COUNTS = "/contests/song/vote_updates"
STREAM = f"{COUNTS}/stream?sources=true"
PUBLIC = "/public/contests/song/results"
PUBLIC_STREAM = f"{PUBLIC}/stream"


class EndOfStream(Exception):
    """The server ended the stream as it should be ended."""


@dataclass(frozen=True)
class Event:
    """`text` is the data as it came. What is no event (`retry`, a comment) is called so here."""

    name: str
    text: str = ""
    id: str | None = None

    @property
    def data(self) -> Any:
        return orjson.loads(self.text)


class Stream:
    """One response, read event by event."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self, *names: str, within_s: float = DEADLINE_S) -> Event:
        """The next event, or the next of these names. Raises `EndOfStream`, and `TimeoutError` if none comes."""
        async with asyncio.timeout(within_s):
            while True:
                event = await self._event()
                if event.name in names or (not names and event.name not in ("retry", "")):
                    return event

    async def _event(self) -> Event:
        fields: dict[str, str] = {}
        async for line in self._lines:
            if not line:
                return Event(fields.get("event") or next(iter(fields)), fields.get("data", ""), fields.get("id"))
            name, _, value = line.partition(": ")
            fields[name] = value
        raise EndOfStream

    async def counts(self, count: int) -> Event:
        """The first event that shows so many votes."""
        while True:
            event = await self.next("counts", "results")
            if event.data["count"] == count:
                return event


class Service:
    """The environment, served at `url`."""

    def __init__(self, env: QueryEnvironment, client: httpx.AsyncClient, server: HttpServer) -> None:
        self.env = env
        self.client = client
        self.server = server

    @asynccontextmanager
    async def listen(self, path: str, key: str | None = None, **headers: str) -> AsyncIterator[Stream]:
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.stream("GET", path, headers=names) as response:
            if response.status_code != 200:
                await response.aread()
            yield Stream(response)


async def first_events(env: QueryEnvironment, path: str, key: str | None = None) -> tuple[int, list[Event]]:
    """Return a stream's status and first events, without `retry`. Needs no server."""
    path, _, query = path.partition("?")
    headers = [] if key is None else [(b"authorization", f"Bearer {key}".encode())]
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
    }
    incoming = iter(("http.request", "http.disconnect"))
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": next(incoming), "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    front = HttpMiddleware(env.app, [route for route in env.app.routes if isinstance(route, AsgiRoute)])
    await front(scope | {"headers": headers}, receive, send)
    events = b"".join(message.get("body", b"") for message in sent).decode().split("\n\n")
    found = [
        dict(line.split(": ", 1) for line in event.split("\n")) for event in events if event.startswith("event")
    ]
    return sent[0]["status"], [Event(each["event"], each["data"], each.get("id")) for each in found]


@asynccontextmanager
async def served(env: QueryEnvironment) -> AsyncIterator[Service]:
    server = HttpServer(env.app, HttpSettings(port=0, drain_delay_s=0))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup()
    serving = asyncio.create_task(server.main_loop())
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    limits = httpx.Limits(max_connections=None)
    async with http_client(base_url=f"http://{host}:{port}", timeout=DEADLINE_S, limits=limits) as client:
        yield Service(env, client, server)
    server.should_exit = True
    await serving
    await server.shutdown()
