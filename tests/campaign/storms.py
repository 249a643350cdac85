"""Clients that take much and give nothing: idle connections, bodies that never end, streams that nobody reads."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from tests.campaign.stage import Stage

IDLE, SLOW, DEAF = 400, 40, 40
"""Connections of each kind: below the number of files that one process may open."""
BYTE_EVERY_S: Final = 0.5
FEW_BYTES: Final = 256
"""Buffer of a stream that is not read."""

Request = Callable[[Stage], bytes]


def idle(_: Stage) -> bytes:
    return b""


def slow_body(stage: Stage) -> bytes:
    """Return the beginning of a vote whose body has thousands of bytes."""
    return _head(
        stage, "POST", "/contests/any/votes", "content-type: application/json\r\ncontent-length: 9999\r\n"
    )


def deaf_stream(stage: Stage) -> bytes:
    path = stage.crowd.polls["batches"].contest.path
    return _head(stage, "GET", f"{path}/vote_updates/stream?sources=true", "")


@asynccontextmanager
async def storm(connections: int, request: Request, stage: Stage) -> AsyncIterator[int]:
    """Keep connections open, and send a byte through each of them now and then; yields how many there are."""
    host, _, port = stage.stack.base_url.rpartition("/")[2].rpartition(":")
    writers: list[asyncio.StreamWriter] = []

    async def open_one() -> None:
        with suppress(OSError):
            _, writer = await asyncio.open_connection(host, int(port), limit=FEW_BYTES)
            writer.write(request(stage))
            writers.append(writer)

    async def send_bytes() -> None:
        while request is slow_body:
            await asyncio.sleep(BYTE_EVERY_S)
            for writer in writers:
                writer.write(b" ")

    await asyncio.gather(*(open_one() for _ in range(connections)))
    sending = asyncio.create_task(send_bytes())
    try:
        yield len(writers)
    finally:
        sending.cancel()
        for writer in writers:
            writer.transport.abort()


def _head(stage: Stage, method: str, path: str, headers: str) -> bytes:
    key = stage.stack.stack["api_key"]
    return f"{method} {path} HTTP/1.1\r\nhost: any\r\nauthorization: Bearer {key}\r\n{headers}\r\n".encode()
