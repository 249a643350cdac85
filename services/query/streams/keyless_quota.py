"""Limits the open streams of callers without a key, in total and per IP address."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from libs.tally.errors import Overloaded
from libs.telemetry.metrics import HTTP_REFUSALS
from libs.web.client_address import Proxies
from libs.web.errors import Scope

TRY_AGAIN_S = 10
REFUSED = HTTP_REFUSALS.labels("streams")


class KeylessQuota:
    """Counts the public streams of one process."""

    def __init__(self, most: int, most_per_address: int, proxies: Proxies) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._proxies = proxies
        self._taken: Counter[str] = Counter()
        self._total = 0

    @contextmanager
    def taken(self, scope: Scope) -> Iterator[None]:
        """Count a stream while the context is open. Raises `Overloaded` if a limit is reached."""
        address = self._proxies.network(scope)
        if self._taken[address] >= self._most_per_address:
            REFUSED.inc()
            raise Overloaded("This address has too many streams open.", retry_after_s=TRY_AGAIN_S)
        if self._total >= self._most:
            REFUSED.inc()
            raise Overloaded("Too many streams are open.", retry_after_s=TRY_AGAIN_S)
        self._taken[address] += 1
        self._total += 1
        try:
            yield
        finally:
            self._taken[address] -= 1
            self._total -= 1
            if not self._taken[address]:
                del self._taken[address]
