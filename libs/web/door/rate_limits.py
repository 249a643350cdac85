"""Rate limits: requests and bytes per key, or without a key per address, and failed attempts per address.

Every request counts towards its key, or, if no key was authenticated, towards its address, whatever it sends. A
request of a key also counts towards each key that it descends from, so a key gains no rate by making others.

The bytes of a request's body count towards the same keys or address, except those of votes, which the capacity to
record votes limits, and of files, which are stored as they arrive. A body is admitted while any of the quota is
left, so a declared one that is larger than the quota is not refused for ever. A key whose own rate is 0 has no
limit of bytes.

Requests and bytes are counted in windows of `WINDOW_S`. A process counts in memory and adds its count to counters
shared by all processes in the background, a tenth of a quota at a time; only a request near its limit waits for
the shared count. A caller far below its limit costs no round trip, and exceeds its quota by at most a tenth per
process. While the shared counters are unavailable, each process uses its own.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from libs.contracts.catalogue_events import ApiKey
from libs.tally.errors import TallyError, ViewsUnavailable
from libs.telemetry.metrics import HTTP_REFUSALS
from libs.web.door.client_address import Proxies
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
KEYLESS: Final = ("/public", "/media", "/dashboard", "/docs", "/redoc", "/openapi", "/asyncapi")
"""Prefixes of paths that, like `/`, need no key: requests are counted by address before they are served."""
CREDENTIALS: Final = frozenset({b"authorization", b"service-key", b"cookie"})

ALLOWED: Final = {
    "key": "make {} requests",
    "key-bytes": "send {} bytes in bodies",
    "address": "make {} requests",
    "address-bytes": "send {} bytes in bodies",
    "failures": "make {} failed attempts",
}
"""What a policy limits, by its name."""

REFUSED: Final = HTTP_REFUSALS.labels("rate")

logger = logging.getLogger(__name__)


class SharedCounts(Protocol):
    """Counters shared by all processes."""

    async def add(self, name: str, window: int, count: int, kept_s: int) -> int:
        """Add to a counter and return its value. Raises a `TallyError` while it is unavailable."""


@dataclass(slots=True)
class Usage:
    """Requests or bytes counted against one quota in one window."""

    kind: str
    name: str
    window: int
    quota: int
    own: int = 0
    """Requests or bytes not yet added to the shared count."""
    under_way: int = 0
    shared: int = 0
    """The last known shared count."""

    @property
    def total(self) -> int:
        return self.shared + self.under_way + self.own

    def headers(self, now: float) -> list[tuple[bytes, bytes]]:
        """Return `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10)."""
        left, reset = max(0, self.quota - self.total), self.reset_s(now)
        unit = b';qu="content-bytes"' if self.kind.endswith("-bytes") else b""
        return [
            (b"ratelimit-policy", b'"%s";q=%d;w=%d%s' % (self.kind.encode(), self.quota, WINDOW_S, unit)),
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

    def take_for_key(self, scope: Scope, key: ApiKey) -> bool:
        """Count a request of a key; False if the shared count must be read: call `charge_key`.

        Raises `RateLimited`.
        """
        usages = self._of_key(scope, key)
        if not usages or not self._begin(scope, usages):
            return True
        return self._take(usages) or self._give_back(scope)

    async def charge_key(self, scope: Scope, key: ApiKey) -> None:
        """Count a request of an authenticated key, once. Raises `RateLimited`."""
        usages = self._of_key(scope, key)
        if usages and self._begin(scope, usages):
            await self._charge(usages)

    async def charge_keyless(self, scope: Scope) -> None:
        """Count a request by address before it is served, unless it may have a key. Raises `RateLimited`."""
        path = scope["path"]
        if path == "/" or path.startswith(KEYLESS) or not _has_credentials(scope):
            await self.charge_unauthenticated(scope)

    async def charge_unauthenticated(self, scope: Scope) -> None:
        """Count a request by address, once, unless a key was authenticated or a failed attempt was counted.

        Call it before the effect of a request that needs no key; the middleware calls it before every response.
        Raises `RateLimited`.
        """
        state = scope["state"]
        if scope["path"] in NEVER_LIMITED or state.get("key") or state.get("rate") is not None:
            return
        usage = self._usage("address", self._proxies.network(scope), self._settings.rate_per_address)
        if usage is None or not self._begin(scope, [usage]):
            return
        try:
            await self._charge([usage])
        except RateLimited:
            self._hint(scope)
            raise

    async def charge_body(self, scope: Scope, size: int) -> None:
        """Count bytes of a body by the key that was authenticated, else by address. Raises `RateLimited`."""
        state, settings = scope["state"], self._settings
        key: ApiKey | None = state.get("key")
        if state.get("is_streamed"):
            return
        if key is None:
            network = self._proxies.network(scope)
            found = [self._usage("address-bytes", network, settings.rate_bytes_per_address)]
        else:
            names = [name for name, rate in _rates(key) if rate != 0]
            found = [self._usage("key-bytes", name, settings.rate_bytes_per_key) for name in names]
        usages = [usage for usage in found if usage is not None]
        try:
            await self._charge(usages, size)
        except RateLimited:
            state["rate"] = min(usages, key=lambda usage: usage.quota - usage.total)
            raise

    def refuse_after_failures(self, scope: Scope) -> None:
        """Check the failed attempts before searching an unknown key. Raises `RateLimited` after too many."""
        usage = self._of_failures(scope)
        if usage is not None and usage.total >= usage.quota:
            scope["state"]["rate"] = usage
            raise self._refused(usage)

    async def charge_failure(self, scope: Scope) -> None:
        """Count a wrong key. Raises `RateLimited` after too many."""
        usage = self._of_failures(scope)
        if usage is not None:
            scope["state"]["rate"] = usage
            await self._charge([usage])

    def headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return the rate-limit headers of the response; empty if the request was not counted."""
        usage: Usage | None = scope["state"].get("rate")
        return [] if usage is None else usage.headers(self.clock())

    def _of_key(self, scope: Scope, key: ApiKey) -> list[Usage]:
        """Return the usages that a request of a key counts towards: its own, and those of its ancestors."""
        scope["state"]["key"] = key
        default = self._settings.rate_per_key
        usages = []
        for name, rate in _rates(key):
            usage = self._usage("key", name, default if rate is None else rate)
            if usage is not None:
                usages.append(usage)
        return usages

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

    def _begin(self, scope: Scope, usages: Sequence[Usage]) -> bool:
        """Return False if the request was counted before. The response shows the usage with the least left."""
        state = scope["state"]
        earlier: Usage | None = state.get("rate")
        if earlier is not None and earlier.kind == usages[0].kind:
            return False
        state["rate"] = usages[0] if len(usages) == 1 else min(usages, key=lambda usage: usage.quota - usage.total)
        return True

    @staticmethod
    def _give_back(scope: Scope) -> bool:
        del scope["state"]["rate"]
        return False

    def _take(self, usages: Sequence[Usage], count: int = 1) -> bool:
        """Count in memory, towards all or none; False near a limit. Raises `RateLimited`."""
        is_near = False
        for usage in usages:
            if usage.total >= usage.quota:
                raise self._refused(usage)
            is_near = is_near or usage.total + count > NEAR * usage.quota
        if is_near and self._reads_shared:
            return False
        for usage in usages:
            usage.own += count
            if self._reads_shared and usage.own >= STEP * usage.quota:
                task = asyncio.ensure_future(self._add(usage, _begin_adding(usage)))
                self._adding.add(task)
                task.add_done_callback(self._adding.discard)
        return True

    async def _charge(self, usages: Sequence[Usage], count: int = 1) -> None:
        if self._take(usages, count):
            return
        for usage in usages:
            usage.own += count
        await asyncio.gather(*(self._add(usage, _begin_adding(usage)) for usage in usages))
        for usage in usages:
            if usage.total - count >= usage.quota:
                raise self._refused(usage)

    @property
    def _reads_shared(self) -> bool:
        return self._shared is not None and time.monotonic() >= self._away_until

    async def _add(self, usage: Usage, count: int) -> None:
        """Add what is under way to the shared count and read it; raises nothing."""
        assert self._shared is not None
        try:
            if not self._reads_shared:
                raise ViewsUnavailable("The shared counters were unavailable a moment ago.")
            async with asyncio.timeout(PATIENCE_S):
                total = await self._shared.add(usage.name, usage.window, count, 2 * WINDOW_S)
            usage.shared = max(usage.shared, total)
        except (TallyError, TimeoutError):
            usage.own += count
            if self._reads_shared:
                self._away_until = time.monotonic() + AWAY_S
        finally:
            usage.under_way -= count

    def _refused(self, usage: Usage) -> TallyError:
        """Count a refusal and return its error."""
        REFUSED.inc()
        rate = usage.quota // WINDOW_S
        of_key = usage.kind.startswith("key")
        caller = "This API key, or one that it descends from," if of_key else "This address"
        return RateLimited(
            f"{caller} may {ALLOWED[usage.kind].format(rate)} a second, {usage.quota} in {WINDOW_S} s.",
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


def _begin_adding(usage: Usage) -> int:
    """Take what is not yet added to the shared count; it is under way from now on."""
    count, usage.own = usage.own, 0
    usage.under_way += count
    return count


def _rates(key: ApiKey) -> list[tuple[str, int | None]]:
    """Return the id and own rate of a key, and of those that it descends from."""
    return [(key.key_id, key.rules.rate)] + [(ancestor.key_id, ancestor.rate) for ancestor in key.ancestors]


def stream_uncounted(scope: Scope) -> None:
    """Leave the bytes of this request's body out of the rates: it is stored as it arrives, not parsed."""
    scope["state"]["is_streamed"] = True


def limits_of(scope: Scope) -> RateLimits | None:
    """Return the rate limits of the process, if it has any."""
    found: RateLimits | None = scope.get("state", {}).get("rate_limits")
    return found


async def charge_unauthenticated(scope: Scope) -> None:
    """Count a request that needs no key before its effect. Raises `RateLimited`."""
    limits = limits_of(scope)
    if limits is not None:
        await limits.charge_unauthenticated(scope)


def _has_credentials(scope: Scope) -> bool:
    return not CREDENTIALS.isdisjoint([name for name, _ in scope["headers"]])
