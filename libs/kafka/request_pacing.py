"""Decides when a broker's next request is sent, so that one request carries the records of many partitions."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

T = TypeVar("T")

LONGEST_WAIT_S: Final = 0.05
"""Wait for a request without any acknowledgement, before the other partitions' records are sent after it."""
FEW_RECORDS: Final = 4
"""A request of fewer records does not delay the next one: the load is low."""


class RequestPace(Generic[T]):
    """Collects the partitions of one broker that have records to send.

    With nothing in flight, they are sent at the end of the event loop's tick: a lone record never waits. Otherwise
    they wait for the first acknowledgement of the request in flight; and after one of `FEW_RECORDS` or more, until
    `linger_s` have passed since it was sent.
    """

    def __init__(self, send: Callable[["RequestPace[T]", Sequence[T]], None], linger_s: float) -> None:
        self._send = send
        self._linger_s = linger_s
        self._ready: dict[T, None] = {}
        self._next: asyncio.Handle | None = None
        self._sent_at = 0.0
        self.request = 0
        """Number of the latest request."""
        self.records = 0
        """Number of its records."""

    def add(self, partition: T) -> None:
        self._ready[partition] = None
        if self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._start)

    def landed(self, request: int) -> None:
        """Allow the next request: a partition's records of `request` were acknowledged or failed."""
        if request != self.request or self._next is None:
            return
        self.request += 1
        self._next.cancel()
        loop = asyncio.get_running_loop()
        wait_s = self._sent_at + self._linger_s - loop.time() if self.records >= FEW_RECORDS else 0.0
        # at the earliest in the next tick: one response acknowledges all of its partitions
        self._next = loop.call_later(max(0.0, wait_s), self._start)

    def _start(self) -> None:
        self._next = None
        if not self._ready:
            return
        ready, self._ready = list(self._ready), {}
        loop = asyncio.get_running_loop()
        self.request, self.records, self._sent_at = self.request + 1, 0, loop.time()
        self._next = loop.call_later(LONGEST_WAIT_S, self._start)
        self._send(self, ready)
