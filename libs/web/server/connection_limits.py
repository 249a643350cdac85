"""Limits on the connections of one port, and their deadlines."""

import resource
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from libs.web.door.client_address import Proxies, peer_network
from libs.web.settings import HostSettings

SPARE_FILES: Final = 256
"""Open files reserved for uses other than callers' connections."""
MAX_REFUSED: Final = 256
"""Refused connections that stay open until their clients have read the response; one more is aborted."""
SWEEPS_APART_S: Final = 0.2


class CountedConnection(Protocol):
    """`deadline` is a time of `ConnectionLimits.clock`, None while not waiting for the client."""

    deadline: float | None

    def expire(self) -> None:
        """Handle the passed deadline."""

    def evict(self) -> None:
        """Close the connection at once to make room for another."""


class ConnectionLimits:
    """Counts connections, and ends those past their deadline."""

    def __init__(
        self, settings: HostSettings, proxies: Proxies, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._proxies = proxies
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        spared = max(1, files - SPARE_FILES) if files != resource.RLIM_INFINITY else settings.http_max_connections
        self._most = min(settings.http_max_connections, spared)
        self._connections: dict[CountedConnection, str] = {}
        self._by_address: Counter[str] = Counter()
        self._waiting: dict[CountedConnection, None] = {}
        self._refused: set[CountedConnection] = set()
        self._swept_at = clock()

    def __len__(self) -> int:
        return len(self._connections)

    def admit(self, connection: CountedConnection, peer: tuple[str, int] | None) -> bool:
        """Count a new connection, unless there are too many. If full, evicts the longest waiting one."""
        address = "" if peer is None or self._proxies.trusts(peer) else peer_network(peer)
        if address and self._by_address[address] >= self.settings.http_max_connections_per_address:
            return False
        if len(self._connections) >= self._most:
            longest = next(iter(self._waiting), None)
            if longest is None:
                return False
            self.leave(longest)
            longest.evict()
        self._connections[connection] = address
        self._by_address[address] += 1
        return True

    def refuse(self, connection: CountedConnection) -> bool:
        """Return whether a refused connection may stay open until its client has read the response."""
        if len(self._refused) >= MAX_REFUSED:
            return False
        self._refused.add(connection)
        return True

    def leave(self, connection: CountedConnection) -> None:
        self._refused.discard(connection)
        self._waiting.pop(connection, None)
        address = self._connections.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def waits(self, connection: CountedConnection) -> None:
        """Mark the connection as waiting for its client."""
        self._waiting.pop(connection, None)
        if connection in self._connections:
            self._waiting[connection] = None

    def works(self, connection: CountedConnection) -> None:
        """Mark the connection as not waiting: its client has sent all, or reading is paused."""
        self._waiting.pop(connection, None)

    def sweep(self) -> None:
        """End connections past their deadline; at most every `SWEEPS_APART_S`."""
        now = self.clock()
        if now < self._swept_at + SWEEPS_APART_S:
            return
        self._swept_at = now
        for connection in (*self._connections, *self._refused):
            if connection.deadline is not None and now >= connection.deadline:
                connection.expire()
