"""Everything that a page receives from the network, as Chromium reports it, open streams included."""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import CDPSession, Error, Page

STREAM = "text/event-stream"


def contains(text: str, number: int) -> bool:
    """Return whether the number is in the text, not as a part of another one such as a time's."""
    return re.search(rf"(?<![\d.]){number}(?!\d)", text) is not None


@dataclass
class Traffic:
    """The bodies that a page has received since `record`; `text` is all of them."""

    _session: CDPSession
    paths: list[str] = field(default_factory=list)
    _chunks: list[bytes] = field(default_factory=list)
    _reads: set[asyncio.Task[None]] = field(default_factory=set)
    _streams: set[str] = field(default_factory=set)

    @classmethod
    async def record(cls, page: Page) -> Traffic:
        """Begin to record; call it before the page opens an address."""
        session = await page.context.new_cdp_session(page)
        traffic = cls(session)
        session.on("Network.responseReceived", traffic._on_response)
        session.on("Network.dataReceived", traffic._on_data)
        session.on("Network.loadingFinished", traffic._on_end)
        await session.send("Network.enable")
        return traffic

    @property
    def text(self) -> str:
        return b"\n".join(self._chunks).decode("utf-8", "replace")

    async def settled(self) -> str:
        """Return `text` after all reads under way."""
        while self._reads:
            await asyncio.gather(*self._reads)
        return self.text

    def _on_response(self, event: dict[str, Any]) -> None:
        self.paths.append(event["response"]["url"].partition("//")[2].partition("/")[2])
        if event["response"]["mimeType"] == STREAM:
            self._streams.add(event["requestId"])
            self._start(self._read_stream(event["requestId"]))

    def _on_data(self, event: dict[str, Any]) -> None:
        if data := event.get("data"):
            self._chunks.append(b64decode(data))

    def _on_end(self, event: dict[str, Any]) -> None:
        if event["requestId"] not in self._streams:
            self._start(self._read_body(event["requestId"]))

    def _start(self, read: Any) -> None:
        task = asyncio.ensure_future(read)
        self._reads.add(task)
        task.add_done_callback(self._reads.discard)

    async def _read_stream(self, request: str) -> None:
        with suppress(Error):  # it has ended meanwhile
            answer = await self._session.send("Network.streamResourceContent", {"requestId": request})
            self._chunks.append(b64decode(answer["bufferedData"]))

    async def _read_body(self, request: str) -> None:
        with suppress(Error):  # a redirect, or an empty body
            answer = await self._session.send("Network.getResponseBody", {"requestId": request})
            body: str = answer["body"]
            self._chunks.append(b64decode(body) if answer["base64Encoded"] else body.encode())
