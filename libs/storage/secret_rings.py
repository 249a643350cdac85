"""The server's own secrets, which can be rotated: of each purpose one signs, and all that are kept verify.

The first is an object without a time; every later one has the time from which it signs in its name. That time lies
ahead when the secret is made, so every process knows the secret before any of them signs with it. What was signed
at a given time is signed the same by whoever asks later: `at`.
"""

import asyncio
import logging
import re
import secrets
import time
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple

from libs.storage.secrets import SECRET_BYTES, SERVER, server_secret
from libs.storage.store import StorageUnavailable, Store
from libs.tally.errors import TallyError
from libs.tally.time import timestamp

FRESH_S: Final = 15.0
"""How old what a process knows of a ring may be."""
AHEAD_S: Final = 60
"""How long before it signs a secret is made."""
PATIENCE_S: Final = 0.5
"""How long signing waits for an object store that was read before."""
AGAIN_S: Final = 1.0
"""Least time between two looks for what is not known."""
AWAY_S: Final = 5.0
"""How long an object store is left alone that did not answer."""
_LATER: Final = re.compile(r"\.([0-9]{16})$")

logger = logging.getLogger(__name__)


class SecretWaits(TallyError):
    """The newest secret does not sign yet."""

    code = "secret_waits"


class RingSecret(NamedTuple):
    """`since` is in microseconds since 1970 UTC; 0 of the first."""

    since: int
    name: str
    value: bytes


class SecretRing:
    """The secrets of one purpose, known to a process. They are read again as they are used."""

    def __init__(self, store: Store, purpose: str, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._purpose = purpose
        self._clock = clock
        self._known: list[RingSecret] = []
        self._read_at = self._asked_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def __call__(self, again: bool = False) -> tuple[bytes, ...]:
        """All of them; the last one signs now. `again`: read anew, once in `AGAIN_S` at most.

        Raises `StorageUnavailable` while nothing was read ever.
        """
        await self.load(again=again)
        signing = self._signing(self._now())
        return (*(each.value for each in self._known if each is not signing), signing.value)

    async def load(self, again: bool = False) -> None:
        """Before `at`, each time. Raises as a call."""
        now, age_s, apart_s = time.monotonic(), AGAIN_S if again else FRESH_S, AGAIN_S if again else AWAY_S
        if now - self._read_at < age_s or (self._known and now - self._asked_at < apart_s):
            return
        if self._reading is None:
            self._asked_at = now
            self._reading = asyncio.create_task(self._read())
            self._reading.add_done_callback(self._end)
        if not self._known:
            await asyncio.shield(self._reading)
            return
        try:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.shield(self._reading)
        except (StorageUnavailable, TimeoutError):
            return  # what is known holds

    def at(self, moment: int) -> bytes:
        """The one that signs what happened at this time (microseconds since 1970 UTC)."""
        return self._signing(moment).value

    def _signing(self, moment: int) -> RingSecret:
        return self._known[max(0, bisect_right(self._known, moment, key=lambda each: each.since) - 1)]

    def _now(self) -> int:
        return int(self._clock() * 1_000_000)

    async def _read(self) -> None:
        began = time.monotonic()
        self._known = await read_ring(self._store, self._purpose)
        self._read_at = began

    def _end(self, task: asyncio.Task[None]) -> None:
        self._reading = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("the %s secrets cannot be read: %s", self._purpose, error)


async def read_ring(store: Store, purpose: str) -> list[RingSecret]:
    """The oldest first; where there is none, one is made. Raises `StorageUnavailable`."""
    first = f"{SERVER}/{purpose}"
    found = []
    for name in await store.names(SERVER):
        later = _LATER.search(name)
        if name != first and (later is None or name[: later.start()] != first):
            continue
        value = await store.get(name)
        if value is not None:
            found.append(RingSecret(0 if later is None else int(later[1]), name, value))
    return sorted(found) or [RingSecret(0, first, await server_secret(store, purpose))]


async def rotate(store: Store, purpose: str, now: int) -> RingSecret:
    """Make a secret that signs from `AHEAD_S` on.

    Raises `SecretWaits` while another waits, and `StorageUnavailable`.
    """
    waiting = [each for each in await read_ring(store, purpose) if each.since > now]
    if waiting:
        raise SecretWaits(f"Another secret waits: it signs from {timestamp(waiting[0].since)} on.")
    since = now + AHEAD_S * 1_000_000
    made = RingSecret(since, f"{SERVER}/{purpose}.{since:016d}", secrets.token_bytes(SECRET_BYTES))
    await store.put_if_absent(made.name, made.value)
    return made


def retired(ring: list[RingSecret], now: int) -> list[RingSecret]:
    """Those that another has replaced. Raises `SecretWaits` while the newest does not sign yet."""
    if ring[-1].since > now:
        raise SecretWaits(f"The newest secret signs from {timestamp(ring[-1].since)} on: retire others then.")
    return ring[:-1]
