"""Valkey client shared by all callers of a process: their calls of one event loop tick are sent together."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from contextvars import Context
from itertools import chain
from typing import Any, NamedTuple, Protocol

from hiredis import pack_command
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from libs.tally.errors import ViewsUnavailable
from libs.views.valkey.connection import (
    FUNCTION_MISSING,
    NO_ANSWER,
    Call,
    Connection,
    NotExecuted,
    open_connection,
)
from libs.views.valkey.hash_tags import SLOTS
from libs.views.valkey.settings import ValkeySettings

logger = logging.getLogger(__name__)

MAX_CONNECTIONS = 2
"""Connections, each with one batch in flight; later calls join the next batch, so load makes batches larger."""
MAX_WAITING = 20_000
"""Calls that wait to be sent; more are refused at once."""
TIMEOUT_S = 5.0
"""Timeout of a call, from its start to its answer. After it the outcome is unknown."""
SUSPECT_S = 1.0
"""Time without data after which a cluster's server is suspected: another may have taken over its slots."""
SWEEP_S = 0.1
"""Interval of the timeout checks: a timeout may be reported this much late."""


class Valkey(Protocol):
    """Interface of the client for the views: commands are never sent again automatically."""

    @property
    def is_cluster(self) -> bool:
        """True if the keys of one call must be in one slot."""

    def call(self, *command: Any) -> Awaitable[Any]:
        """Return the reply as bytes, int, list or None.

        Raises `NotExecuted` if the command certainly had no effect. Any other `ViewsUnavailable` means that its
        outcome is unknown.
        """

    async def shards(self) -> "Sequence[Shard]":
        """Return the servers that together hold all keys, for commands without a key. Raises as `call`."""

    def server_of(self, key: str, /) -> Hashable:
        """Return what identifies the server that a call with this key is now sent to."""


class ValkeyClient(Valkey, Protocol):
    """A process's client, which it closes."""

    async def close(self) -> None:
        """Wait for the calls in progress, then close the connections; later calls fail."""


class Shard(NamedTuple):
    """A server, and the ranges of slots that it holds (first, last): a single server holds all."""

    valkey: Valkey
    slots: Sequence[tuple[int, int]]


class Router(Protocol):
    """Decides in a cluster which calls are sent again to which server."""

    def redirect(self, call: Call, error: str) -> bool:
        """Take over a call that a server has refused with `error`; False to fail it."""

    def suspect(self) -> None:
        """Note that a server does not respond, or that a connection to it was lost."""


def connect(settings: ValkeySettings, timeout_s: float = TIMEOUT_S) -> Redis:
    """Create a client that never retries a command: only its callers can decide which ones are idempotent.

    A user and password in the URL take precedence over the other settings.
    """
    tls: dict[str, Any] = {}
    if settings.uses_tls:
        tls = {
            "ssl_ca_certs": settings.valkey_ca_file,
            "ssl_certfile": settings.valkey_certificate_file,
            "ssl_keyfile": settings.valkey_key_file or settings.valkey_certificate_file,
        }
    return Redis.from_url(
        settings.valkey_url.get_secret_value(),
        username=settings.valkey_username or None,
        password=settings.valkey_password and settings.valkey_password.get_secret_value(),
        retry=Retry(NoBackoff(), 0),
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        decode_responses=False,
        **tls,
    )


async def read_info(valkey: Valkey, section: str) -> dict[str, str]:
    """Return a section of the server's INFO."""
    lines = (await valkey.call("INFO", section)).decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


class Coalescer:
    """A `Valkey` that sends all calls of one event loop tick as one batch.

    Up to `MAX_CONNECTIONS` batches are in flight at once, each on its own connection, so a slow call delays only
    those of its tick. Every call ends within `TIMEOUT_S`, including its time in the queue. A connection without
    data for so long is replaced; a lost one is opened again by the next call.
    """

    def __init__(
        self,
        redis: Redis,
        repair: Callable[[Valkey], Awaitable[None]] | None = None,
        router: Router | None = None,
    ) -> None:
        """Connect as `redis` would. Call `repair` when the server lacks a function: it was emptied or replaced."""
        self._redis = redis
        self._repair = repair
        self._router = router
        self._waiting: list[Call] = []
        self._connections: list[Connection] = []
        self._opening: asyncio.Task[None] | None = None
        self._repairs: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False
        self.is_cluster = False
        """True after a server that is a cluster by itself has refused a call for its slots."""

    def call(self, *command: Any) -> "asyncio.Future[Any]":
        """Send a command with the next batch. Raises `TypeError` for an argument that cannot be encoded."""
        return self.send(command, -1)

    def send(self, command: tuple[Any, ...], slot: int) -> "asyncio.Future[Any]":
        """Send a command whose key is in `slot`, as `call` does."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        try:
            packed = pack_command(command)
        except (TypeError, UnicodeEncodeError) as error:
            answer.set_exception(error)
            return answer
        self.enqueue(Call(packed, answer, loop.time() + TIMEOUT_S, slot))
        return answer

    def enqueue(self, call: Call) -> None:
        """Send a call with the next batch, after those enqueued before."""
        if self._closed:
            call.fail(not_sent("the connection is closed"))
            return
        if len(self._waiting) >= MAX_WAITING:
            call.fail(not_sent("too many calls wait to be sent"))
            return
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._flush)
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop)
        self._waiting.append(call)

    def take_waiting(self) -> list[Call]:
        """Remove and return the calls that were not sent."""
        waiting, self._waiting = self._waiting, []
        return waiting

    async def shards(self) -> Sequence[Shard]:
        """Return this server: it holds all keys."""
        return [Shard(self, [(0, SLOTS - 1)])]

    def server_of(self, _: str, /) -> Hashable:
        """Return this client: its server holds all keys."""
        return self

    async def close(self) -> None:
        """Wait for queued calls and those in flight, then close the connections; later calls fail."""
        while pending := [call.answer for call in self._unanswered() if not call.answer.done()]:
            await asyncio.wait(pending)
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        lost = [connection.lost for connection in self._connections]
        for connection in self._connections:
            connection.abort("the client is closed")
        await asyncio.gather(*lost)

    def _unanswered(self) -> Iterable[Call]:
        return chain(self._waiting, *(connection.batch for connection in self._connections))

    def _flush(self) -> None:
        """Send the waiting calls if a connection is free; otherwise this is called again when one becomes free."""
        self._waiting = [call for call in self._waiting if not call.answer.done()]
        if not self._waiting:
            return
        free = next((connection for connection in self._connections if connection.is_free), None)
        if free is not None:
            calls, self._waiting = self._waiting, []
            free.send(calls)
        elif self._opening is None and len(self._connections) < MAX_CONNECTIONS:
            # it outlives the request that opens it, so it has a context of its own
            self._opening = asyncio.get_running_loop().create_task(self._open(), context=Context())
            self._opening.add_done_callback(self._opened)

    async def _open(self) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            connection = await open_connection(self._redis)
        self._connections.append(connection)
        connection.on_free, connection.on_error = self._flush, self._handle_error
        connection.lost.add_done_callback(lambda _: self._forget(connection))

    def _forget(self, connection: Connection) -> None:
        self._connections.remove(connection)
        if self._router is not None and not self._closed:
            self._router.suspect()
        self._flush()

    def _opened(self, task: asyncio.Task[None]) -> None:
        """Send the waiting calls. After a failure they wait for the other connection, or fail if there is none."""
        self._opening = None
        error = None if task.cancelled() else task.exception()
        if error is None:
            self._flush()
            return
        if not isinstance(error, OSError | ViewsUnavailable):
            logger.error("connecting to Valkey failed", exc_info=error)
        if self._router is not None:
            self._router.suspect()
        if not self._connections:
            for call in self.take_waiting():
                call.fail(not_sent((isinstance(error, ViewsUnavailable) and error.cause) or repr(error)))

    def _handle_error(self, call: Call, error: str) -> bool:
        if error == FUNCTION_MISSING:
            self._repair_functions()
        self.is_cluster |= error.startswith("CROSSSLOT")
        return self._router is not None and self._router.redirect(call, error)

    def _repair_functions(self) -> None:
        """Load the functions that the server lacks, unless that is in progress."""
        if self._repair is None:
            return
        repair, self._repair = self._repair, None
        task = asyncio.get_running_loop().create_task(self._run_repair(repair), context=Context())
        self._repairs.add(task)
        task.add_done_callback(self._repairs.discard)

    async def _run_repair(self, repair: Callable[[Valkey], Awaitable[None]]) -> None:
        try:
            await repair(self)
        except ViewsUnavailable:
            logger.warning("the Valkey functions could not be loaded again")
        finally:
            self._repair = repair

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail overdue calls: queued ones are never sent, the outcome of those in flight is unknown."""
        now, late = loop.time(), f"no answer within {TIMEOUT_S:g} s"
        for call in self._waiting:
            if call.deadline <= now:
                call.fail(not_sent(late))
        for connection in self._connections:
            for call in connection.batch:
                if call.deadline <= now:
                    call.fail(ViewsUnavailable(NO_ANSWER, retry_after_s=1, cause=late))
            if connection.batch and connection.active_at + TIMEOUT_S <= now:
                connection.abort(late)
            elif connection.batch and connection.active_at + SUSPECT_S <= now and self._router is not None:
                self._router.suspect()
        self._waiting = [call for call in self._waiting if not call.answer.done()]
        busy = self._waiting or any(connection.batch for connection in self._connections)
        self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop) if busy else None


def not_sent(cause: str) -> NotExecuted:
    """Return the error of a call that was not sent."""
    return NotExecuted(NO_ANSWER, retry_after_s=1, cause=cause)
