"""One connection to Valkey for all concurrent callers of a process: their calls share a pipeline per loop tick."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from libs.tally.errors import ViewsUnavailable
from libs.views.settings import ValkeySettings

logger = logging.getLogger(__name__)

MOST_FLIGHTS = 2
"""Pipelines under way at once; what comes meanwhile goes with the next, so load makes them larger, not more."""
TIMEOUT_S = 5.0
"""How long one round trip may take. An answer later than that is unknown, never assumed."""


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
        settings.valkey_url,
        username=settings.valkey_username or None,
        password=settings.valkey_password and settings.valkey_password.get_secret_value(),
        retry=Retry(NoBackoff(), 0),
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        decode_responses=False,
        **tls,
    )


class Coalescer:
    """A `Valkey` that sends what is called during one tick of the event loop as one pipeline.

    A few pipelines may be under way at once, each on a connection of its own, so a slow call holds back only those
    of its tick.
    """

    def __init__(self, redis: Redis, repair: Callable[[Valkey], Awaitable[None]] | None = None) -> None:
        """`repair` is called when the server does not know a function: an empty one took its place."""
        self._redis = redis
        self._repair = repair
        self._waiting: list[tuple[tuple[Any, ...], asyncio.Future[Any]]] = []
        self._flights: set[asyncio.Task[None]] = set()
        self._repairs: set[asyncio.Task[None]] = set()

    async def call(self, *command: Any) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._depart)
        self._waiting.append((command, future))
        return await future

    async def close(self) -> None:
        """Wait for what is under way or waits, then close the connections."""
        while self._flights or self._waiting:
            await asyncio.gather(*self._flights, return_exceptions=True)
            await asyncio.sleep(0)
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
        passengers, self._waiting = self._waiting, []
        flight = asyncio.ensure_future(self._fly(passengers))
        self._flights.add(flight)
        flight.add_done_callback(self._landed)

    def _landed(self, flight: asyncio.Task[None]) -> None:
        self._flights.discard(flight)
        self._depart()

    async def _fly(self, passengers: list[tuple[tuple[Any, ...], asyncio.Future[Any]]]) -> None:
        try:
            pipeline = self._redis.pipeline(transaction=False)
            for command, _ in passengers:
                pipeline.execute_command(*command)
            replies = await pipeline.execute(raise_on_error=False)
        except (RedisError, OSError, TimeoutError) as error:
            replies = [error] * len(passengers)
        for (_, future), reply in zip(passengers, replies, strict=True):
            if future.done():
                continue
            if isinstance(reply, Exception):
                future.set_exception(ViewsUnavailable(f"Valkey: {reply}", retry_after_s=1))
                if "Function not found" in str(reply):
                    self._start_repair()
            else:
                future.set_result(reply)
