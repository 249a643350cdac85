"""The transport to an HTTP client, which closes in two steps, so that clients can read the last response."""

import asyncio
from typing import Any, Final, Protocol

CONTINUE: Final = b"HTTP/1.1 100 "
JOINED_BYTES: Final = 64 * 1024
"""Size of the longest piece that is copied behind the head: clients that do not read share longer ones."""


class ClosingProtocol(Protocol):
    """The part of the HTTP protocol that its transport calls."""

    def close_requested(self) -> None:
        """Close the connection with `finish`, `close_now` or `abort`, at once or later."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class ClientTransport(asyncio.Transport):
    """Closes a connection in two steps: first the sending side, then, when the client has finished, the rest.

    A response's head is sent together with what follows in the same tick of the event loop: uvicorn writes head
    and body apart, and uvloop sends each write at once.
    """

    def __init__(self, protocol: ClosingProtocol, inner: asyncio.Transport) -> None:
        super().__init__()
        self.has_written = False
        """True once a byte of a response was written, other than an interim one."""
        self._protocol: ClosingProtocol | None = protocol
        self._inner = inner
        self._is_ending = False
        self._is_paused = False
        self._is_holding = False
        self._head = b""
        """The head of a response, not sent yet."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_ending:
            return
        if self._head and len(data) > JOINED_BYTES:
            self._send_head()
        elif self._head:
            data, self._head = self._head + data, b""
        elif not self.has_written and bytes(data[: len(CONTINUE)]) != CONTINUE:
            self.has_written, self._head = True, bytes(data)
            asyncio.get_running_loop().call_soon(self._send_head)
            return
        self._inner.write(data)

    def write_whole(self, response: bytes) -> None:
        """Send a whole response at once, after a head that waits to be sent."""
        if not self._is_ending:
            self.has_written = True
            head, self._head = self._head, b""
            self._inner.write(head + response)

    def _send_head(self) -> None:
        head, self._head = self._head, b""
        if head and not self._inner.is_closing():
            self._inner.write(head)

    def close(self) -> None:
        """Let the protocol close: called by uvicorn, which does not know whether the client is still sending."""
        if self._protocol is not None:
            self._protocol.close_requested()

    def finish(self) -> None:
        """Close the sending side; received data is still read."""
        self._send_head()
        self._is_ending, self._is_holding = True, False
        self._inner.resume_reading()
        self._inner.write_eof()

    def close_now(self) -> None:
        """Close both sides once all that is written was sent."""
        self._send_head()
        self._inner.close()

    def abort(self) -> None:
        self._is_ending, self._head = True, b""
        self._inner.abort()

    def release(self) -> None:
        """Break the reference cycle of a lost connection: the garbage collector runs rarely."""
        self._protocol = None

    def is_closing(self) -> bool:
        return self._is_ending or self._inner.is_closing()

    def pause_reading(self) -> None:
        self._is_paused = True
        if self._protocol is not None:
            self._protocol.pause()
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._protocol is not None:
            self._protocol.resume()
        if not self._is_holding:
            self._inner.resume_reading()

    def hold(self) -> None:
        """Read no more before `read_on`, whatever else resumes reading."""
        self._is_holding = True
        self._inner.pause_reading()

    def read_on(self) -> None:
        self._is_holding = False
        if not self._is_paused and not self._inner.is_closing():
            self._inner.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._inner.get_extra_info(name, default)
