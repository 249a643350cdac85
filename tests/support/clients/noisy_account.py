"""An account that does the worst that it may: it writes, searches, reads and deletes the largest records."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import httpx

from libs.concurrency.tasks import end_tasks
from tests.support.builders.worst_bodies import JSON, MARKS, largest, most_bytes
from tests.support.models.openapi import read_tracked, resolved

WORKERS: Final = 2
"""Requests under way at the same time."""
PAUSE_S: Final = 0.05
"""Time between two rounds, so that one without answers is not repeated at once."""
PARTICIPANTS: Final = 5
SMALLEST: Final = 4_096
"""Size below which no smaller record is tried."""


class NoisyAccount:
    """Sends as `client`, which has a key of the account; `statuses` counts the answers."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._document = read_tracked()
        self._sizes: dict[str, int] = {}
        self.statuses = Counter[int]()

    async def run(self) -> None:
        """Repeat until cancelled; requests without an answer are not repeated."""
        while True:
            with suppress(httpx.TransportError):
                await self._round()
            await asyncio.sleep(PAUSE_S)

    async def _round(self) -> None:
        for path in ("/contests", "/conventions", "/articles", "/apps"):
            location = await self._create(path, path)
            if path == "/contests" and location:
                for _ in range(PARTICIPANTS):
                    await self._create(f"{location}/participants", "/contests/{contest_key}/participants")
                await self._send("GET", f"/public{location}")
                await self._send("GET", f"{location}/participants", params={"limit": "100"})
            for query in ({"limit": "100"}, {"limit": "100", "tags": "a" + MARKS * 400}):
                await self._send("GET", path, params=query)
            if location:
                await self._send("DELETE", location)

    async def _create(self, path: str, documented: str) -> str:
        """Create a record as large as is accepted, which is found at the first time; return its path."""
        operation = self._document["paths"][documented]["post"]
        body = resolved(self._document, operation["requestBody"])
        size = self._sizes.setdefault(documented, most_bytes(self._document, operation))
        while True:
            content = largest(self._document, body["content"][JSON]["schema"], size)
            answer = await self._send("POST", path, content=content, headers={"content-type": JSON})
            if answer.status_code not in (413, 422) or size < SMALLEST:
                return answer.headers.get("location", "")
            size = self._sizes[documented] = size // 2

    async def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        answer = await self._client.request(method, path, **request)
        self.statuses[answer.status_code] += 1
        return answer


@asynccontextmanager
async def noise(client: httpx.AsyncClient) -> AsyncIterator[NoisyAccount]:
    """Make noise while the context is open."""
    account = NoisyAccount(client)
    workers = [asyncio.create_task(account.run()) for _ in range(WORKERS)]
    try:
        yield account
    finally:
        await end_tasks(workers)
