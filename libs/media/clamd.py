"""The malware scanner: clamd, over its INSTREAM command."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final, Protocol
from urllib.parse import urlsplit

from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import TallyError
from libs.web.errors import PayloadTooLarge

AT_ONCE: Final = 4
"""Scans of a process; clamd has ten threads by default, for all who ask."""
CHUNK_BYTES: Final = 256 << 10
ANSWER_BYTES: Final = 4096
_LENGTH: Final = struct.Struct(">I")


class MalwareFound(ValidationFailed):
    """The scanner recognised the bytes; they are not kept."""

    code = "malware_found"

    def __init__(self, where: str = "") -> None:
        super().__init__([Problem(where, "was refused: the malware scanner recognised it")])


class ScannerUnavailable(TallyError):
    """The scanner did not pass the bytes, nor refuse them; they are not kept."""

    code = "scanner_unavailable"


class Scanner(Protocol):
    """Looks for malware in bytes."""

    async def scan(self, chunks: AsyncIterator[bytes], where: str = "") -> None:
        """Returns when they passed. Raises `MalwareFound`, at pointer `where`, `PayloadTooLarge`, and
        `ScannerUnavailable`."""


class Clamd:
    """A clamd at `clamd://host:port`, or at the socket `clamd:///path`."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """`timeout_s` is for one scan, waiting for its turn included."""
        self._address = urlsplit(url)
        self._timeout_s = timeout_s
        self._free = asyncio.Semaphore(AT_ONCE)

    async def scan(self, chunks: AsyncIterator[bytes], where: str = "") -> None:
        try:
            async with asyncio.timeout(self._timeout_s), self._free:
                answer = await self._ask(chunks)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise _unavailable(error) from error
        if answer.endswith(" FOUND"):
            raise MalwareFound(where)
        if "size limit" in answer:
            raise PayloadTooLarge("The malware scanner takes nothing of this size.")
        if answer != "stream: OK":
            raise _unavailable(answer)

    async def _ask(self, chunks: AsyncIterator[bytes]) -> str:
        """clamd's answer, without the zero byte at its end."""
        reader, writer = await self._connect()
        try:
            # it answers early, and closes, where it has found something or takes no more
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


def open_scanner(url: str, timeout_s: float) -> Scanner | None:
    """None where no scanner is set."""
    return Clamd(url, timeout_s) if url else None


def _unavailable(cause: BaseException | str) -> ScannerUnavailable:
    return ScannerUnavailable("The bytes cannot be scanned at the moment.", retry_after_s=5, cause=cause)
