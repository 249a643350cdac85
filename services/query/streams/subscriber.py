"""One reader of a stream."""

import asyncio
from typing import NamedTuple

from starlette.types import Send

from services.query.streams.updates import PING, Message, Seen, Update


class Credentials(NamedTuple):
    """What let a reader in: its peer and headers."""

    peer: tuple[str, int] | None
    headers: tuple[tuple[bytes, bytes], ...]


class Subscriber:
    """Is told at once what its connection takes at once. While its reader is slow, a task waits to tell what is
    latest by then.
    """

    __slots__ = ("_heard", "_latest", "_send", "_writing", "credentials")

    def __init__(self, send: Send, heard: Seen, credentials: Credentials | None = None) -> None:
        self._send = send
        self._heard = heard
        self._latest: Update | None = None
        self._writing: asyncio.Task[None] | None = None
        self.credentials = credentials

    def tell(self, told: Update) -> bool:
        """Whether there was anything to tell. After the last there is not."""
        if self._latest is not None and self._latest.last:
            return False
        self._latest = told
        message = None if self._writing else told.since(self._heard)
        if message is None:
            return False
        if self._takes(message):
            self._heard = told.heard
        else:
            self._writing = asyncio.create_task(self._write(told))
        return True

    def ping(self) -> bool:
        """Only where nothing waits to be sent."""
        return not self._writing and self._takes(PING)

    def close(self) -> None:
        if self._writing:
            self._writing.cancel()

    def _takes(self, message: Message) -> bool:
        """Send, unless that would have to wait for the reader: up to there, nothing was written."""
        sending = self._send(message).__await__()
        try:
            next(sending)
        except StopIteration:
            return True
        sending.close()
        return False

    async def _write(self, told: Update) -> None:
        while (message := told.since(self._heard)) is not None:
            await self._send(message)
            self._heard = told.heard
            told = self._latest or told
        self._writing = None
