"""Rate limits: requests per key, requests without a key per address, and failed attempts per address.

Requests are counted in windows of `WINDOW_S`. A process counts in memory and adds its count to counters shared by
all processes in the background, a tenth of a quota at a time; only a request near its limit waits for the shared
count. A caller far below its limit costs no round trip, and exceeds its quota by at most a tenth per process.
While the shared counters are unavailable, each process uses its own.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from libs.metrics.definitions import HTTP_REFUSALS
from libs.tally.errors import TallyError, ViewsUnavailable
from libs.web.client_address import Proxies
from libs.web.errors import RateLimited, Scope
from libs.web.settings import HostSettings

WINDOW_S: Final = 10
NEAR: Final = 0.8
"""Fraction of a quota above which each request reads the shared count."""
STEP: Final = 0.1
"""Fraction of a quota that a process counts before it adds to the shared count."""
PATIENCE_S: Final = 0.25
AWAY_S: Final = 5.0
"""Seconds without requests to the shared counters after a failure or timeout."""
LOGGED_APART_S: Final = 60.0
NEVER_LIMITED: Final = ("/livez", "/readyz", "/metrics")
KEYLESS: Final = ("/public", "/media", "/dashboard", "/docs", "/redoc")
"""Prefixes of paths that, like `/`, need no key: credentials are ignored there."""

REFUSED: Final = HTTP_REFUSALS.labels("rate")

logger = logging.getLogger(__name__)


class SharedCounts(Protocol):
    """Counters shared by all processes."""

    async def add(self, name: str, window: int, count: int, kept_s: int) -> int: ...


class LimitedKey(Protocol):
    """An API key's limit: `rate` in requests per second, None for the setting's, 0 for no limit."""

    @property
    def key_id(self) -> str: ...
    @property
    def rate(self) -> int | None: ...


@dataclass(slots=True)
class Usage:
    """Requests counted against one quota in one window."""

    kind: str
    name: str
    window: int
    quota: int
    own: int = 0
    """Requests not yet added to the shared count."""
    under_way: int = 0
    shared: int = 0
    """The last known shared count."""

    @property
    def total(self) -> int:
        return self.shared + self.under_way + self.own

    def headers(self, now: float) -> list[tuple[bytes, bytes]]:
        """Return `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10)."""
        left, reset = max(0, self.quota - self.total), self.reset_s(now)
        return [
            (b"ratelimit-policy", b'"%s";q=%d;w=%d' % (self.kind.encode(), self.quota, WINDOW_S)),
            (b"ratelimit", b'"%s";r=%d;t=%d' % (self.kind.encode(), left, reset)),
        ]

    def reset_s(self, now: float) -> int:
        return max(1, (self.window + 1) * WINDOW_S - int(now))


class RateLimits:
    """Counts and limits the requests of one process."""

    def __init__(
        self,
        settings: HostSettings,
        proxies: Proxies,
        shared: SharedCounts | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.clock = clock
        self._settings = settings
        self._proxies = proxies
        self._shared = shared
        self._window = 0
        self._usages: dict[str, Usage] = {}
        self._adding: set[asyncio.Task[None]] = set()
        self._away_until = self._logged_at = -LOGGED_APART_S

    def take_for_key(self, scope: Scope, key: LimitedKey) -> bool:
        """Count a request of a key; False if the shared count must be read: call `charge_key`.

        Raises `RateLimited`.
        """
        usage = self._of_key(key)
        if usage is None or not self._begin(scope, usage):
            return True
        return self._take(usage) or self._give_back(scope)

    async def charge_key(self, scope: Scope, key: LimitedKey) -> None:
        """Count a request of a key, once. Raises `RateLimited`."""
        usage = self._of_key(key)
        if usage is not None and self._begin(scope, usage):
            await self._charge(usage)

    async def charge_keyless(self, scope: Scope) -> None:
        """Count a request by address, unless it has credentials and the path needs them. Raises `RateLimited`."""
        path = scope["path"]
        is_keyless = path == "/" or path.startswith(KEYLESS)
        if path.startswith(NEVER_LIMITED) or (not is_keyless and _has_credentials(scope)):
            return
        usage = self._usage("address", self._proxies.network(scope), self._settings.rate_per_address)
        if usage is None or not self._begin(scope, usage):
            return
        try:
            await self._charge(usage)
        except RateLimited:
            self._hint(scope)
            raise

    def refuse_after_failures(self, scope: Scope) -> None:
        """Check the failed attempts before searching an unknown key. Raises `RateLimited` after too many."""
        usage = self._of_failures(scope)
        if usage is not None and usage.total >= usage.quota:
            scope["state"]["rate"] = usage
            raise self._refusal(usage)

    async def charge_failure(self, scope: Scope) -> None:
        """Count a wrong key. Raises `RateLimited` after too many."""
        usage = self._of_failures(scope)
        if usage is not None:
            scope["state"]["rate"] = usage
            await self._charge(usage)

    def headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return the rate-limit headers of the response; empty if the request was not counted."""
        usage: Usage | None = scope["state"].get("rate")
        return [] if usage is None else usage.headers(self.clock())

    def _of_key(self, key: LimitedKey) -> Usage | None:
        return self._usage("key", key.key_id, self._settings.rate_per_key if key.rate is None else key.rate)

    def _of_failures(self, scope: Scope) -> Usage | None:
        return self._usage("failures", self._proxies.network(scope), self._settings.rate_failures_per_address)

    def _usage(self, kind: str, subject: str, rate: int) -> Usage | None:
        """Return the usage of the current window; None if there is no limit."""
        if not rate:
            return None
        window = int(self.clock()) // WINDOW_S
        if window != self._window:
            self._window, self._usages = window, {}
        name = f"{kind}:{subject}"
        usage = self._usages.get(name)
        if usage is None or usage.quota != rate * WINDOW_S:
            usage = self._usages[name] = Usage(kind, name, window, rate * WINDOW_S)
        return usage

    def _begin(self, scope: Scope, usage: Usage) -> bool:
        """Return False if the request was counted before."""
        state = scope["state"]
        earlier: Usage | None = state.get("rate")
        if earlier is not None and earlier.kind == usage.kind:
            return False
        state["rate"] = usage
        return True

    @staticmethod
    def _give_back(scope: Scope) -> bool:
        del scope["state"]["rate"]
        return False

    def _take(self, usage: Usage) -> bool:
        """Count in memory; False near the limit."""
        if usage.total >= usage.quota:
            raise self._refusal(usage)
        if self._reads_shared and usage.total + 1 > NEAR * usage.quota:
            return False
        usage.own += 1
        if self._reads_shared and usage.own >= STEP * usage.quota:
            task = asyncio.ensure_future(self._add(usage))
            self._adding.add(task)
            task.add_done_callback(self._adding.discard)
        return True

    async def _charge(self, usage: Usage) -> None:
        if self._take(usage):
            return
        usage.own += 1
        await self._add(usage)
        if usage.total > usage.quota:
            raise self._refusal(usage)

    @property
    def _reads_shared(self) -> bool:
        return self._shared is not None and time.monotonic() >= self._away_until

    async def _add(self, usage: Usage) -> None:
        """Add to the shared count and read it; raises nothing."""
        assert self._shared is not None
        count, usage.own = usage.own, 0
        usage.under_way += count
        try:
            async with asyncio.timeout(PATIENCE_S):
                total = await self._shared.add(usage.name, usage.window, count, 2 * WINDOW_S)
            usage.shared = max(usage.shared, total)
        except (ViewsUnavailable, TimeoutError):
            usage.own += count
            self._away_until = time.monotonic() + AWAY_S
        finally:
            usage.under_way -= count

    def _refusal(self, usage: Usage) -> TallyError:
        """Count a refusal and return its error."""
        REFUSED.inc()
        rate = usage.quota // WINDOW_S
        caller = "This API key" if usage.kind == "key" else "This address"
        unit = "failed attempts" if usage.kind == "failures" else "requests"
        return RateLimited(
            f"{caller} may make {rate} {unit} a second, {usage.quota} in {WINDOW_S} s.",
            retry_after_s=usage.reset_s(self.clock()),
        )

    def _hint(self, scope: Scope) -> None:
        """Log that the limited address may be an untrusted proxy of many callers."""
        is_forwarded = any(name in (b"x-forwarded-for", b"forwarded") for name, _ in scope["headers"])
        if is_forwarded and time.monotonic() - self._logged_at >= LOGGED_APART_S:
            self._logged_at = time.monotonic()
            logger.warning(
                "%s is limited as one address, but sends forwarding headers: add a proxy to TALLY_TRUSTED_PROXIES",
                self._proxies.network(scope),
            )


def limits_of(scope: Scope) -> RateLimits | None:
    """Return the rate limits of the process, if it has any."""
    found: RateLimits | None = scope.get("state", {}).get("rate_limits")
    return found


def _has_credentials(scope: Scope) -> bool:
    return any(name in (b"authorization", b"service-key", b"cookie") for name, _ in scope["headers"])
