"""One connection to Valkey for all concurrent callers of a process: their calls share a pipeline per loop tick."""

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

MOST_FLIGHTS = 2
"""Pipelines under way at once; what comes meanwhile goes with the next, so load makes them larger, not more."""
TIMEOUT_S = 5.0
"""How long a call may take, from its beginning to its answer. What comes later is unknown, never assumed."""
SWEEP_S = 0.1
"""How often overdue calls are answered; one may be answered this much late."""


NO_ANSWER = "Records and counts cannot be reached at the moment."
"""All that a caller is told, whatever Valkey or the way to it said."""


class NotPermitted(ViewsUnavailable):
    """Valkey's access control list keeps this process's user from a command."""


class Valkey(Protocol):
    """What the views need: one command, answered or failed. Never sent twice on its own account."""

    async def call(self, *command: Any) -> Any:
        """The reply as bytes, int, list or None; `ViewsUnavailable` when the server refused, or may have."""


def connect(settings: ValkeySettings, timeout_s: float = TIMEOUT_S) -> Redis:
    """A client that never repeats a command by itself: the callers know which of theirs may be repeated.

    A user and password in the URL win over those in the other settings.
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


class _Passenger(NamedTuple):
    """One call in a pipeline, or before it: its command, who waits for it, and until when (the loop's clock)."""

    command: list[Any]
    answer: "asyncio.Future[Any]"
    deadline: float


class Coalescer:
    """A `Valkey` that sends what is called during one tick of the event loop as one pipeline.

    A few pipelines may be under way at once, each on a connection of its own, so a slow call holds back only those
    of its tick. Every call is answered within `TIMEOUT_S`, also where it waits for a pipeline to leave.
    """

    def __init__(self, redis: Redis, repair: Callable[[Valkey], Awaitable[None]] | None = None) -> None:
        """`repair` is called when the server does not know a function: an empty one took its place."""
        self._redis = redis
        self._repair = repair
        self._waiting: list[_Passenger] = []
        self._flights: dict[asyncio.Task[None], list[_Passenger]] = {}
        self._repairs: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    async def call(self, *command: Any) -> Any:
        """Raises what encoding an argument raises, before anything is sent."""
        if self._closed:
            raise ViewsUnavailable(NO_ANSWER, retry_after_s=1, cause="the connection is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        encoded = [command[0], *map(_encode, command[1:])]
        if not self._waiting:
            loop.call_soon(self._depart)
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop)
        self._waiting.append(_Passenger(encoded, future, loop.time() + TIMEOUT_S))
        return await future

    async def close(self) -> None:
        """Wait for what is under way or waits, then close the connections; later calls fail."""
        while self._flights or self._waiting:
            await asyncio.gather(*self._flights, return_exceptions=True)
            await asyncio.sleep(0)
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self._redis.aclose()

    def _start_repair(self) -> None:
        repair, self._repair = self._repair, None
        if repair is not None:
            task = asyncio.ensure_future(self._mend(repair))
            self._repairs.add(task)
            task.add_done_callback(self._repairs.discard)

    async def _mend(self, repair: Callable[[Valkey], Awaitable[None]]) -> None:
        try:
            await repair(self)
        except ViewsUnavailable:
            logger.warning("the Valkey functions could not be loaded again")
        finally:
            self._repair = repair

    def _depart(self) -> None:
        if not self._waiting or len(self._flights) >= MOST_FLIGHTS:
            return
        passengers = [passenger for passenger in self._waiting if not passenger.answer.done()]
        self._waiting = []
        if passengers:
            flight = asyncio.ensure_future(self._fly(passengers))
            self._flights[flight] = passengers
            flight.add_done_callback(self._landed)

    def _landed(self, flight: asyncio.Task[None]) -> None:
        """Answers those whom the flight left without an answer, however it ended."""
        error = None if flight.cancelled() else flight.exception()
        if error is not None:
            logger.error("a pipeline to Valkey failed", exc_info=error)
        _fail(self._flights.pop(flight), "the pipeline was cancelled" if error is None else repr(error))
        self._depart()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer overdue calls. Those that still wait are never sent; of the others nobody knows."""
        now = loop.time()
        for passengers in (self._waiting, *self._flights.values()):
            _fail((each for each in passengers if each.deadline <= now), f"no answer within {TIMEOUT_S:g} s")
        self._waiting = [passenger for passenger in self._waiting if not passenger.answer.done()]
        busy = self._waiting or self._flights
        self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop) if busy else None

    async def _fly(self, passengers: list[_Passenger]) -> None:
        replies: list[Any]
        try:
            pipeline = self._redis.pipeline(transaction=False)
            for passenger in passengers:
                pipeline.execute_command(*passenger.command)
            replies = await pipeline.execute(raise_on_error=False)
        except (RedisError, OSError, TimeoutError) as error:
            replies = [error] * len(passengers)
        for (_, future, _), reply in zip(passengers, replies, strict=True):
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
    """As the client library would, but before the argument shares a pipeline with those of others."""
    if isinstance(argument, str):
        return argument.encode()
    if isinstance(argument, bool) or not isinstance(argument, bytes | int | float):
        raise TypeError(f"Valkey takes no {type(argument).__name__} as an argument")
    return argument


def _fail(passengers: Iterable[_Passenger], why: str) -> None:
    for passenger in passengers:
        if not passenger.answer.done():
            passenger.answer.set_exception(ViewsUnavailable(NO_ANSWER, retry_after_s=1, cause=why))
