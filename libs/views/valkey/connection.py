"""One connection to Valkey: sends a batch of commands at a time and returns the replies in their order."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import Connection as TcpSettings
from redis.asyncio.connection import SSLConnection as TlsSettings
from redis.asyncio.connection import UnixDomainSocketConnection as UnixSettings

from libs.tally.errors import ViewsUnavailable

NO_ANSWER: Final = "Records and counts are temporarily unavailable; retry shortly."
"""The only message for clients, regardless of the error of Valkey or the network."""

REFUSALS: Final = frozenset(
    {"ASK", "BUSY", "CLUSTERDOWN", "CROSSSLOT", "LOADING", "MASTERDOWN", "MISCONF", "MOVED", "NOAUTH", "NOPERM"}
    | {"NOREPLICAS", "OOM", "READONLY", "TRYAGAIN"}
)
"""Error codes that Valkey returns instead of executing a command."""
OTHER_LAYOUT: Final = "OTHERLAYOUT"
"""Error code of our functions, before they write anything (`generations/generations.lua`)."""
FUNCTION_MISSING: Final = "ERR Function not found"
IN_FUNCTION: Final = " script: "
"""Part of each error message from inside a function, which may have written before."""


class NotExecuted(ViewsUnavailable):
    """Definite: the command was not sent, or Valkey refused it, so it has no effect."""


class NotPermitted(NotExecuted):
    """Valkey's access control list (ACL) denies the command to this process's user."""


class OtherLayout(ViewsUnavailable):
    """The live views have a layout that only another version of the code reads and writes."""


class Call(NamedTuple):
    """A command in wire format, the future of its reply, and its deadline (loop time).

    In a cluster: the slot of its key (-1: none), and the number of times it was redirected.
    """

    packed: bytes
    answer: "asyncio.Future[Any]"
    deadline: float
    slot: int = -1
    redirects: int = 0

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Connection(asyncio.Protocol):
    """An open connection, with at most one batch in flight.

    A reply always belongs to the oldest unanswered command, also if its caller no longer waits. When the
    connection is lost, the outcome of each unanswered command is unknown: none is sent again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._is_stale = False
        self._cause: str | None = None
        self.batch: deque[Call] = deque()
        """The unanswered commands, oldest first."""
        self.active_at = loop.time()
        """Loop time at which the last batch was sent or the last data received."""
        self.lost: asyncio.Future[None] = loop.create_future()
        self.on_free: Callable[[], None] = lambda: None
        """Called when the last command of a batch is answered."""
        self.on_error: Callable[[Call, str], bool] = lambda _, __: False
        """Called with each error reply; returns whether the call is sent again, so it is not failed."""

    @property
    def is_free(self) -> bool:
        return not self.batch and self._transport is not None and not self._transport.is_closing()

    def send(self, calls: Sequence[Call]) -> None:
        """Send a batch; the connection must be free."""
        assert self._transport is not None
        self.batch.extend(calls)
        self.active_at = self._loop.time()
        self._transport.write(b"".join([call.packed for call in calls]))

    async def execute(self, *command: Any) -> Any:
        """Send a single command without a deadline."""
        call = Call(hiredis.pack_command(command), self._loop.create_future(), 0.0)
        self.send([call])
        return await call.answer

    def abort(self, cause: str) -> None:
        """Drop the connection; `cause` becomes that of the unanswered commands' errors."""
        if self._transport is not None:
            self._cause = cause
            self._transport.abort()

    # callbacks of the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.active_at = self._loop.time()
        batch = self.batch
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not False:
                call = batch.popleft()
                if isinstance(reply, hiredis.ReplyError):
                    self._fail(call, str(reply))
                elif not call.answer.done():
                    call.answer.set_result(reply)
        except (hiredis.HiredisError, IndexError) as error:
            self.abort(f"an unexpected reply: {error!r}")
            return
        if not batch:
            if self._is_stale:
                self.abort("the server is a replica")
            else:
                self.on_free()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        cause = self._cause or (repr(exc) if exc else "the connection was closed")
        while self.batch:
            self.batch.popleft().fail(ViewsUnavailable(NO_ANSWER, retry_after_s=1, cause=cause))
        if not self.lost.done():
            self.lost.set_result(None)

    def _fail(self, call: Call, reply: str) -> None:
        """Fail a call with the server's error. A replica's connection is replaced: its address may have moved."""
        code = reply.partition(" ")[0]
        self._is_stale |= code == "READONLY"
        if not self.on_error(call, reply):
            call.fail(_error_of(code, reply))


def part_error(reply: hiredis.ReplyError) -> ViewsUnavailable:
    """Return the error of one of the keys of a call, whose function may have written before."""
    text = str(reply)
    return _error_of(text.partition(" ")[0], text + IN_FUNCTION)


def _error_of(code: str, reply: str) -> ViewsUnavailable:
    kind: type[ViewsUnavailable] = OtherLayout if code == OTHER_LAYOUT else ViewsUnavailable
    if IN_FUNCTION not in reply and (code in REFUSALS or reply == FUNCTION_MISSING):
        kind = NotPermitted if code == "NOPERM" else NotExecuted
    return kind(NO_ANSWER, retry_after_s=1, cause=reply)


async def open_connection(redis: Redis) -> Connection:
    """Connect and log in as `redis` would: by its address, certificates, user, password and database.

    Raises `OSError`, and `ViewsUnavailable` if the server refuses the user or the database.
    """
    settings = redis.connection_pool.make_connection()  # type: ignore[no-untyped-call]
    try:
        connection = await _connect(settings)
    except OSError as error:
        place = settings.path if isinstance(settings, UnixSettings) else f"{settings.host}:{settings.port}"
        raise ConnectionError(f"cannot connect to {place}: {error}") from error
    try:
        if settings.username or settings.password:
            await connection.execute("AUTH", settings.username or "default", settings.password or "")
        if settings.db:
            await connection.execute("SELECT", settings.db)
    except BaseException:
        connection.abort("the log-in failed")
        raise
    return connection


async def _connect(settings: Any) -> Connection:
    loop = asyncio.get_running_loop()
    connection = Connection(loop)
    if isinstance(settings, UnixSettings):
        await loop.create_unix_connection(lambda: connection, settings.path)
    else:
        assert isinstance(settings, TcpSettings)
        tls = settings.ssl_context.get() if isinstance(settings, TlsSettings) else None
        transport, _ = await loop.create_connection(lambda: connection, settings.host, settings.port, ssl=tls)
        opened = transport.get_extra_info("socket")
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in cast("Mapping[int, int]", settings.socket_keepalive_options).items():
            opened.setsockopt(socket.IPPROTO_TCP, option, value)
    return connection
