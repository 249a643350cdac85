"""Short-lived cache of one expensive value."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

KEPT_S: Final = 1.0


class OncePerSecond(Generic[T]):
    """Calls `find` for the first caller; others share its result for `KEPT_S`, also while it is pending."""

    def __init__(self, find: Callable[[], Awaitable[T]], clock: Callable[[], float] = time.monotonic) -> None:
        self._find = find
        self._clock = clock
        self._found: asyncio.Future[T] | None = None
        self._at = 0.0

    async def get(self) -> T:
        """Return the value. Raises the errors of `find`."""
        now = self._clock()
        if self._found is None or (self._found.done() and now >= self._at + KEPT_S):
            self._at = now
            self._found = asyncio.ensure_future(self._find())
        return await asyncio.shield(self._found)
