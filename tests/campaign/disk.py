"""Faults of the disk below the log of a broker, the append-only file of a Valkey, and the object store.

It is full, broken, or slow. A broker that cannot write its log ends, and the supervisor starts it again until it
can; a Valkey refuses writes until it can. Nobody has to help.
"""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import httpx

from tests.campaign.evidence import Choose, expect
from tests.campaign.stage import Stage
from tests.support.eventually import eventually
from tests.support.http_clients import http_client

SLOW_MS: Final = 300
UPLOAD_EVERY_S: Final = 0.5
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


@asynccontextmanager
async def store_of(disk: Disk, stage: Stage) -> AsyncIterator[None]:
    """Spoil the object store while a client replaces a file; what is read is what was said to be stored."""

    async def services(_: Stage) -> list[str]:
        return [name for name in stage.stack.pids if name.startswith(("gateway", "projector"))]

    headers = {"Authorization": f"Bearer {stage.stack.stack['api_key']}"}
    async with http_client(base_url=stage.stack.base_url, headers=headers, timeout=20.0) as client:
        uploads = Uploads(client, stage)
        await eventually(uploads.create)
        async with disk_of(services, disk, stage):
            sending = asyncio.create_task(uploads.send_again_and_again())
            try:
                yield
            finally:
                sending.cancel()
        await eventually(uploads.send)
        await eventually(uploads.compare)


class Uploads:
    """One file, whose content is replaced again and again."""

    def __init__(self, client: httpx.AsyncClient, stage: Stage) -> None:
        self._client = client
        self._untrue = stage.untrue
        self._url = ""
        self._sent: list[bytes] = []
        """The content that was stored last, and after it those of which the answer left that open."""

    async def create(self) -> bool:
        """Create the file's record; returns whether it is created."""
        try:
            answer = await self._client.post("/files", json=RECORD)
        except httpx.TransportError:
            return False
        assert answer.status_code == 201, answer.text
        self._url = f"/files/{answer.json()['key']}/content"
        return True

    async def send_again_and_again(self) -> None:
        while True:
            await self.send()
            await asyncio.sleep(UPLOAD_EVERY_S)

    async def send(self) -> bool:
        """Send other content; returns whether it is said to be stored."""
        self._sent.append(os.urandom(CONTENT_BYTES))
        try:
            answer = await self._client.put(self._url, content=self._sent[-1])
        except httpx.TransportError:
            return False
        if answer.status_code == 204:
            self._sent = self._sent[-1:]
        elif answer.status_code != 503:
            self._untrue(f"an upload is answered {answer.status_code} {answer.text}")
        return answer.status_code == 204

    async def compare(self) -> bool:
        try:
            answer = await self._client.get(self._url)
        except httpx.TransportError:
            return False
        if answer.status_code == 200 and answer.content not in self._sent:
            self._untrue("a file does not have the content that was stored last")
        return answer.status_code == 200
