"""Valkey client shared by all callers of a process: their calls share one pipeline per event loop tick."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, Protocol

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError, RedisError

from libs.tally.errors import ViewsUnavailable
from libs.views.settings import ValkeySettings

logger = logging.getLogger(__name__)

MAX_PIPELINES = 2
"""Pipelines in flight at once; later calls join the next one, so load makes pipelines larger, not more."""
TIMEOUT_S = 5.0
"""Timeout of a call, from its start to its answer. After it the outcome is unknown."""
SWEEP_S = 0.1
"""Interval of the timeout checks: a timeout may be reported this much late."""

NO_ANSWER = "Records and counts are temporarily unavailable; retry shortly."
"""The only message for clients, regardless of the error of Valkey or the network."""


class NotPermitted(ViewsUnavailable):
    """Valkey's access control list (ACL) denies the command to this process's user."""


class Valkey(Protocol):
    """Interface of the client for the views: commands are never retried automatically."""

    async def call(self, *command: Any) -> Any:
        """Return the reply as bytes, int, list or None. Raises `ViewsUnavailable`: failed, or outcome unknown."""


def connect(settings: ValkeySettings, timeout_s: float = TIMEOUT_S) -> Redis:
    """Create a client that never retries a command: only its callers know which ones are idempotent.

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


class _Call(NamedTuple):
    """One call, queued or in a pipeline: its command, the future of its answer, and its deadline (loop time)."""

    command: list[Any]
    answer: "asyncio.Future[Any]"
    deadline: float


class Coalescer:
    """A `Valkey` that sends all calls of one event loop tick as one pipeline.

    Up to `MAX_PIPELINES` are in flight at once, each on its own connection, so a slow call delays only those of
    its tick. Every call ends within `TIMEOUT_S`, including its time in the queue.
    """

    def __init__(self, redis: Redis, repair: Callable[[Valkey], Awaitable[None]] | None = None) -> None:
        """Call `repair` when the server lacks a function: it was emptied or replaced."""
        self._redis = redis
        self._repair = repair
        self._waiting: list[_Call] = []
        self._pipelines: dict[asyncio.Task[None], list[_Call]] = {}
        self._repairs: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def call(self, *command: Any) -> Any:
        """Send a command with the next pipeline. Raises `TypeError` for an argument that cannot be encoded."""
        if self._closed:
            raise ViewsUnavailable(NO_ANSWER, retry_after_s=1, cause="the connection is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        encoded = [command[0], *map(_encode, command[1:])]
        if not self._waiting:
            loop.call_soon(self._flush)
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop)
        self._waiting.append(_Call(encoded, future, loop.time() + TIMEOUT_S))
        return await future

    async def close(self) -> None:
        """Wait for queued calls and those in flight, then close the connections; later calls fail."""
        while self._pipelines or self._waiting:
            await asyncio.gather(*self._pipelines, return_exceptions=True)
            await asyncio.sleep(0)
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self._redis.aclose()

    def _start_repair(self) -> None:
        repair, self._repair = self._repair, None
        if repair is not None:
            task = asyncio.ensure_future(self._run_repair(repair))
            self._repairs.add(task)
            task.add_done_callback(self._repairs.discard)

    async def _run_repair(self, repair: Callable[[Valkey], Awaitable[None]]) -> None:
        try:
            await repair(self)
        except ViewsUnavailable:
            logger.warning("the Valkey functions could not be loaded again")
        finally:
            self._repair = repair

    def _flush(self) -> None:
        if not self._waiting or len(self._pipelines) >= MAX_PIPELINES:
            return
        calls = [call for call in self._waiting if not call.answer.done()]
        self._waiting = []
        if calls:
            task = asyncio.ensure_future(self._execute(calls))
            self._pipelines[task] = calls
            task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        """Fail the calls that the pipeline left unanswered, and send the next one."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("a pipeline to Valkey failed", exc_info=error)
        _fail(self._pipelines.pop(task), "the pipeline was cancelled" if error is None else repr(error))
        self._flush()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail overdue calls. Queued ones are never sent; the outcome of those in flight is unknown."""
        now = loop.time()
        for calls in (self._waiting, *self._pipelines.values()):
            _fail((call for call in calls if call.deadline <= now), f"no answer within {TIMEOUT_S:g} s")
        self._waiting = [call for call in self._waiting if not call.answer.done()]
        busy = self._waiting or self._pipelines
        self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop) if busy else None

    async def _execute(self, calls: list[_Call]) -> None:
        replies: list[Any]
        try:
            pipeline = self._redis.pipeline(transaction=False)
            for call in calls:
                pipeline.execute_command(*call.command)
            replies = await pipeline.execute(raise_on_error=False)
        except (RedisError, OSError, TimeoutError) as error:
            replies = [error] * len(calls)
        for (_, future, _), reply in zip(calls, replies, strict=True):
            if future.done():
                continue
            if isinstance(reply, Exception):
                kind = NotPermitted if isinstance(reply, NoPermissionError) else ViewsUnavailable
                future.set_exception(kind(NO_ANSWER, retry_after_s=1, cause=reply))
                if "Function not found" in str(reply):
                    self._start_repair()
            else:
                future.set_result(reply)


def _encode(argument: Any) -> bytes | int | float:
    """Encode an argument before it joins a pipeline, so that a bad one fails only its own call."""
    if isinstance(argument, str):
        return argument.encode()
    if isinstance(argument, bool) or not isinstance(argument, bytes | int | float):
        raise TypeError(f"Valkey takes no {type(argument).__name__} as an argument")
    return argument


def _fail(calls: Iterable[_Call], cause: str) -> None:
    for call in calls:
        if not call.answer.done():
            call.answer.set_exception(ViewsUnavailable(NO_ANSWER, retry_after_s=1, cause=cause))
