"""The query service behind its real server, and clients of its streams."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from libs.web.server.http_service import HttpServer
from tests.services.query.query_environment import QueryEnvironment
from tests.support.builders.hostile import ask
from tests.support.clients.http_clients import http_client
from tests.support.servers import serving

DEADLINE_S = 60.0
COUNTS = "/contests/song/vote_updates"
STREAM = f"{COUNTS}/stream?sources=true"
PUBLIC = "/public/contests/song/results"
PUBLIC_STREAM = f"{PUBLIC}/stream"


class EndOfStream(Exception):
    """The server ended the stream as it should be ended."""


@dataclass(frozen=True)
class Event:
    """`text` is the data as it came. A comment has the name ""."""

    name: str
    text: str = ""
    id: str | None = None
    retry: str | None = None

    @property
    def data(self) -> Any:
        return orjson.loads(self.text)


class Stream:
    """One response, read event by event."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self, *names: str, within_s: float = DEADLINE_S) -> Event:
        """The next event, or the next of these names, "" for a ping.

        Raises `EndOfStream`, and `TimeoutError` if none comes.
        """
        async with asyncio.timeout(within_s):
            while True:
                event = await self._event()
                if event.name in names or (not names and event.name):
                    return event

    async def _event(self) -> Event:
        fields: dict[str, str] = {}
        async for line in self._lines:
            if line.startswith(":"):
                return Event("")
            if not line:
                return Event(fields["event"], fields["data"], fields.get("id"), fields.get("retry"))
            name, _, value = line.partition(": ")
            fields[name] = value
        raise EndOfStream

    async def counts(self, count: int) -> Event:
        """The first event that shows so many votes."""
        while True:
            event = await self.next("counts", "results")
            if event.data["count"] == count:
                return event


@dataclass(frozen=True)
class Service:
    """The environment behind its server."""

    env: QueryEnvironment
    client: httpx.AsyncClient
    server: HttpServer

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
    """Return a stream's status and first events, without `retry` and pings. Needs no server."""
    path, _, query = path.partition("?")
    headers = [] if key is None else [(b"authorization", f"Bearer {key}".encode())]
    answer = await ask(env.front, "GET", path, headers, query=query.encode())
    events = answer.body.decode().split("\n\n")
    found = [dict(line.split(": ", 1) for line in event.split("\n") if ": " in line) for event in events]
    return answer.status, [Event(each["event"], each["data"], each.get("id")) for each in found if "event" in each]


@asynccontextmanager
async def served(env: QueryEnvironment) -> AsyncIterator[Service]:
    limits = httpx.Limits(max_connections=None)
    async with (
        serving.served(env.app) as running,
        http_client(base_url=running.url, timeout=DEADLINE_S, limits=limits) as client,
    ):
        yield Service(env, client, running.server)
