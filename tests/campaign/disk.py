"""Faults of the disk below the log of a broker, the append-only file of a Valkey, and the object store.

It is full, broken, or slow. A broker that cannot write its log ends, and the supervisor starts it again until it
can; a Valkey refuses writes until it can. After a failed fsync it refuses them for ever, and an operator starts it
again, as `tally doctor` says.
"""

import asyncio
import errno
import json
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from libs.local_stack.valkey import away_servers
from tests.campaign.clients import SEATS
from tests.campaign.evidence import Choose, expect, services
from tests.campaign.stage import Stage

SLOW_MS: Final = 300
SLOW_STORE_MS: Final = 1_000
UPLOAD_EVERY_S: Final = 0.5
WRITES_AGAIN_S: Final = 3.0
"""Time after which Valkey has tried its disk again, which it does each second."""
CONTENT_BYTES: Final = 100_000
RECORD: Final = {"filename": "a.txt", "file_type": "text/plain", "file_extension": "txt"}


class Disk(NamedTuple):
    """`error`: the number that each write is answered with, or 0; `delay_ms`: of each write."""

    error: int = 0
    delay_ms: int = 0


DISKS: Final[Mapping[str, Disk]] = {
    "full": Disk(error=errno.ENOSPC),
    "broken": Disk(error=errno.EIO),
    "slow": Disk(delay_ms=SLOW_MS),
}
STORE_DISKS: Final = {**DISKS, "slow": Disk(delay_ms=SLOW_STORE_MS)}
"""Of the object store: an upload writes so seldom that it is only then seen to wait."""


def directory_of(stage: Stage, name: str) -> Path:
    """Return the directory in which a process keeps what must last."""
    kind, _, number = name.partition("-")
    if kind not in ("kafka", "valkey"):
        return stage.stack.data_dir / "objects"
    own = stage.stack.data_dir / kind / (name if number else "")
    return own / ("log" if kind == "kafka" else "appendonlydir")


@asynccontextmanager
async def disk_of(choose: Choose, disk: Disk, stage: Stage) -> AsyncIterator[None]:
    names = await choose(stage)
    pages = [stage.page(name) for name in names]
    before = sum(page.refused + page.delayed for page in pages)
    for name, page in zip(names, pages, strict=True):
        page.directory = os.fsencode(directory_of(stage, name).resolve())
        page.error, page.delay_ms = disk
    try:
        yield
        expect(sum(page.refused + page.delayed for page in pages) > before, f"nothing was written by {names}")
    finally:
        for page in pages:
            page.error = page.delay_ms = 0
        await _start_again(stage, [name for name in names if name.startswith("valkey")])


async def _start_again(stage: Stage, names: Sequence[str]) -> None:
    """Start the servers of Valkey that still refuse all when they had time to write again."""
    if not names:
        return
    await asyncio.sleep(WRITES_AGAIN_S)
    refusing = [server.address for server in await away_servers(stage.stack.stack["valkey"]) if server.error]
    ports = json.loads((stage.stack.data_dir / "ports.json").read_text())
    for name in names:
        if any(address.endswith(f":{ports[name]}") for address in refusing):
            await stage.start(name)


@asynccontextmanager
async def store_of(disk: Disk, stage: Stage) -> AsyncIterator[None]:
    """Spoil the object store while a client replaces a file; what is read is what was said to be stored."""

    uploads = Uploads(stage)
    await uploads.send()
    async with disk_of(services, disk, stage):
        sending = asyncio.create_task(uploads.send_again_and_again())
        try:
            yield
        finally:
            uploads.is_over.set()
            await sending
    stage.checks.append(uploads.are_stored)


class Uploads:
    """One file, whose content is replaced again and again."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._url = ""
        self._stored = b""
        self._open: list[bytes] = []
        """Content that may still be stored: its answer was lost, or left that open."""
        self.is_over = asyncio.Event()

    async def send_again_and_again(self) -> None:
        while not self.is_over.is_set():
            await self.send()
            await asyncio.sleep(UPLOAD_EVERY_S)

    async def send(self) -> bool:
        """Send other content; returns whether it is said to be stored."""
        if not self._url:
            return await self._create()
        content = os.urandom(CONTENT_BYTES)
        if await self._answer("PUT", self._url, content=content) is None:
            self._open.append(content)
            return False
        self._stored = content
        return True

    async def _create(self) -> bool:
        """Create the file's record; its content is sent by the next call."""
        answer = await self._answer("POST", "/files", json=RECORD)
        if answer is not None:
            self._url = f"/files/{answer.json()['key']}/content"
        return False

    async def are_stored(self) -> bool:
        """Return whether content can be stored and read again, and compare it."""
        answer = await self._answer("GET", self._url) if await self.send() else None
        if answer is not None and answer.content not in (self._stored, *self._open):
            self._stage.crowd.oracle.untrue("a file does not have the content that was stored last")
        return answer is not None

    async def _answer(self, method: str, url: str, **arguments: Any) -> httpx.Response | None:
        """Return the answer; None if it is 503, lost or untrue."""
        crowd, sent_at = self._stage.crowd, time.monotonic()
        answer = await crowd.send_once(lambda: crowd.client.request(method, url, **arguments))
        if answer is None or answer.status_code == 503:
            crowd.oracle.doubt()
            return None
        crowd.oracle.waited(SEATS, sent_at)
        if not answer.is_success:
            crowd.oracle.untrue(f"{method} {url} is answered {answer.status_code} {answer.text}")
            return None
        return answer
