"""Requests and replies of hot routes, whose handlers are the same with ASGI and without."""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from starlette.responses import Response
from starlette.types import Receive

from libs.web.door.request_parsing import read_body
from libs.web.errors import Scope

Header = tuple[bytes, bytes]


class Reply(NamedTuple):
    """A whole response; `headers` include its length."""

    status: int
    headers: list[Header]
    body: bytes


def reply_of(response: Response) -> Reply:
    """Return a response of the framework as a reply."""
    return Reply(response.status_code, response.raw_headers, bytes(response.body))


class HotRequest(Protocol):
    """A request with its ASGI scope."""

    scope: Scope

    @property
    def received(self) -> bytes | None:
        """The whole body, None if it must be read."""

    async def read(self, max_bytes: int) -> bytes:
        """Return the whole body. Raises `PayloadTooLarge` and `ClientDisconnect`."""


Handler = Callable[[HotRequest], Coroutine[Any, Any, Reply]]
"""Replies to a request, or raises the error to reply with.

Without ASGI it runs in no task: it may await futures and tasks, but `asyncio.timeout` and its kin need a task of
their own.
"""


class AsgiRequest:
    """A request that is served through ASGI."""

    __slots__ = ("_receive", "received", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.received: bytes | None = None
        self._receive = receive

    async def read(self, max_bytes: int) -> bytes:
        if self.received is None:
            self.received = await read_body(self.scope["headers"], self._receive, max_bytes)
        return self.received
