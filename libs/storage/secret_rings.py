"""The server's own secrets, which can be rotated: for each purpose one signs, and all stored ones verify.

The first is an object without a time; every later one has the time from which it signs in its name. That time is
in the future when the secret is created, so every process has read the secret before any of them signs with it.
`at` returns the secret that signs at a given time. A process that could not read the ring, or whose clock leapt,
may have signed with an older one: `is_first` says for which times that cannot be.
"""

import asyncio
import logging
import re
import secrets
import time
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple

from libs.storage.object_store import Store
from libs.storage.secrets import SECRET_BYTES, SERVER, server_secret
from libs.tally.errors import TallyError
from libs.tally.time_conversion import timestamp

FRESH_S: Final = 15.0
"""Age after which a process reads a ring again."""
AHEAD_S: Final = 60
"""Time between a secret's creation and its first signature."""
PATIENCE_S: Final = 0.5
"""Time that signing waits for the object store if a ring is cached."""
AGAIN_S: Final = 1.0
"""Least time between two reads for an unknown secret."""
AWAY_S: Final = 5.0
"""Time without reads after the object store did not respond."""
_LATER: Final = re.compile(r"\.([0-9]{16})$")

logger = logging.getLogger(__name__)


def microseconds_now() -> int:
    return time.time_ns() // 1000


class SecretWaits(TallyError):
    """The newest secret does not sign yet."""

    code = "secret_waits"


class RingSecret(NamedTuple):
    """A secret that signs from `since` on, in microseconds since 1970 UTC; 0 for the first."""

    since: int
    name: str
    value: bytes


class SecretRing:
    """Cached secrets of one purpose, read again on use."""

    def __init__(self, store: Store, purpose: str, clock: Callable[[], int] = microseconds_now) -> None:
        self._store = store
        self._purpose = purpose
        self._clock = clock
        self._known: list[RingSecret] = []
        self._read_at = self._asked_at = float("-inf")
        self._read_for = 0
        """No secret that was made after the last read signs before this (microseconds since 1970 UTC)."""
        self._reading: asyncio.Task[None] | None = None

    async def __call__(self, again: bool = False) -> tuple[bytes, ...]:
        """Return all secrets; the last one signs now. `again` reads them again, at most once in `AGAIN_S`.

        Raises `StorageUnavailable` if none was ever read.
        """
        await self.load(again=again)
        signing = self._signing(self._clock())
        return (*(each.value for each in self._known if each is not signing), signing.value)

    async def load(self, again: bool = False) -> None:
        """Read the secrets if they are due; call it before every `at`. Raises the errors of a call."""
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
        await asyncio.wait([self._reading], timeout=PATIENCE_S)  # without an answer the cached secrets stay valid

    @property
    def is_loaded(self) -> bool:
        """True if `load` would read nothing."""
        return time.monotonic() - self._read_at < FRESH_S

    def at(self, moment: int) -> bytes:
        """Return the secret that signs at this time (microseconds since 1970 UTC)."""
        return self._signing(moment).value

    def is_first(self, moment: int) -> bool:
        """Return whether no process can have signed with another secret than the first for this time.

        False for times after those which the ring was last read for: it may have another secret since.
        """
        known = self._known
        return moment < (known[1].since if len(known) > 1 else self._read_for)

    def _signing(self, moment: int) -> RingSecret:
        if len(self._known) == 1:
            return self._known[0]
        return self._known[max(0, bisect_right(self._known, moment, key=lambda each: each.since) - 1)]

    async def _read(self) -> None:
        began, moment = time.monotonic(), self._clock()
        self._known = await read_ring(self._store, self._purpose)
        self._read_at, self._read_for = began, moment + AHEAD_S * 1_000_000

    def _end(self, task: asyncio.Task[None]) -> None:
        self._reading = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("the %s secrets cannot be read: %s", self._purpose, error)


async def read_ring(store: Store, purpose: str) -> list[RingSecret]:
    """Return the secrets, oldest first; creates the first if there is none. Raises `StorageUnavailable`."""
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
    """Create a secret that signs `AHEAD_S` from `now` on.

    Raises `SecretWaits` while another does not sign yet, and `StorageUnavailable`.
    """
    waiting = [each for each in await read_ring(store, purpose) if each.since > now]
    if waiting:
        raise SecretWaits(f"Another secret is waiting: it signs from {timestamp(waiting[0].since)} on.")
    since = now + AHEAD_S * 1_000_000
    made = RingSecret(since, f"{SERVER}/{purpose}.{since:016d}", secrets.token_bytes(SECRET_BYTES))
    await store.put_if_absent(made.name, made.value)
    return made


def retired(ring: list[RingSecret], now: int) -> list[RingSecret]:
    """Return all secrets but the newest. Raises `SecretWaits` while the newest does not sign yet."""
    if ring[-1].since > now:
        raise SecretWaits(
            f"The newest secret signs from {timestamp(ring[-1].since)} on: retire the others after that."
        )
    return ring[:-1]
