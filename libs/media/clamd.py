"""Client of the malware scanner clamd, by its INSTREAM command."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import TallyError
from libs.web.errors import PayloadTooLarge

AT_ONCE: Final = 4
"""Concurrent scans of a process; clamd has ten threads by default, for all clients."""
CHUNK_BYTES: Final = 256 << 10
ANSWER_BYTES: Final = 4096
_LENGTH: Final = struct.Struct(">I")


class MalwareFound(ValidationFailed):
    """The scanner recognised malware; the bytes are not stored."""

    code = "malware_found"

    def __init__(self, where: str = "") -> None:
        super().__init__([Problem(where, "was refused: the malware scanner recognised it")])


class ScannerUnavailable(TallyError):
    """The scanner gave no verdict; the bytes are not stored."""

    code = "scanner_unavailable"


class Clamd:
    """Client of a clamd at `clamd://host:port`, or at the socket `clamd:///path`."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """Configure the client; `timeout_s` is for one scan, including the wait for a slot."""
        self._address = urlsplit(url)
        self._timeout_s = timeout_s
        self._free = asyncio.Semaphore(AT_ONCE)

    async def scan(self, chunks: AsyncIterator[bytes], where: str = "") -> None:
        """Return if no malware is found. Raises `MalwareFound` with the pointer `where`, `PayloadTooLarge`, and
        `ScannerUnavailable`."""
        try:
            async with asyncio.timeout(self._timeout_s), self._free:
                answer = await self._ask(chunks)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise _unavailable(error) from error
        if answer.endswith(" FOUND"):
            raise MalwareFound(where)
        if "size limit" in answer:
            raise PayloadTooLarge("The malware scanner does not accept files of this size.")
        if answer != "stream: OK":
            raise _unavailable(answer)

    async def _ask(self, chunks: AsyncIterator[bytes]) -> str:
        """Return clamd's response without its trailing zero byte."""
        reader, writer = await self._connect()
        try:
            # clamd responds early and closes after finding malware or reaching its size limit
            with suppress(ConnectionError):
                writer.write(b"zINSTREAM\0")
                async for chunk in chunks:
                    for at in range(0, len(chunk), CHUNK_BYTES):
                        part = chunk[at : at + CHUNK_BYTES]
                        writer.write(_LENGTH.pack(len(part)) + part)
                        await writer.drain()
                writer.write(_LENGTH.pack(0))
                await writer.drain()
            answer = await reader.readuntil(b"\0")
            return answer[:-1].decode(errors="replace")
        finally:
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._address.hostname is None:
            return await asyncio.open_unix_connection(self._address.path, limit=ANSWER_BYTES)
        return await asyncio.open_connection(self._address.hostname, self._address.port, limit=ANSWER_BYTES)


def _unavailable(cause: BaseException | str) -> ScannerUnavailable:
    return ScannerUnavailable("The bytes cannot be scanned at the moment.", retry_after_s=5, cause=cause)
