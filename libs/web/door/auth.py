"""Authentication and permissions of callers, for the current and the legacy API."""

import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Protocol

from libs.contracts.catalogue_events import ApiKey
from libs.contracts.log_records import CURRENT
from libs.tally.errors import TallyError
from libs.tally.events import Actor
from libs.web.door.client_address import Network, Proxies, parse_networks
from libs.web.door.query_parameters import refuse_unknown_parameters
from libs.web.door.rate_limits import limits_of
from libs.web.door.sessions import COOKIE, Sessions
from libs.web.errors import Forbidden, Scope, Unauthorized

Headers = Iterable[tuple[bytes, bytes]]
"""Headers of an ASGI scope: lower-case names."""
SAFE_METHODS: Final = ("GET", "HEAD")


class KeyFinder(Protocol):
    """Finds the keys of one environment."""

    def get(self, token: str) -> ApiKey | None:
        """Return the key of `token` if this process has cached it: memory only."""

    async def find(self, token: str) -> ApiKey | None:
        """Return the key of `token`, also a new one. Raises `ViewsUnavailable` if the views cannot be read."""

    async def find_id(self, key_id: str) -> ApiKey | None:
        """Return the key of this id. Raises as `find`."""

    def mark_used(self, key_id: str) -> None:
        """Record that a request with this key was accepted: memory only."""


class AddressRefused(TallyError):
    """The key must not be used from the caller's address."""

    code = "forbidden"


class Authenticator:
    """Authenticates Bearer keys (current API) and brand and key (legacy API) of one environment.

    With `sessions`, a browser's session replaces its key: for reads, and for all else from its own origin.
    """

    def __init__(self, keys: KeyFinder, proxies: Proxies, sessions: Sessions | None = None) -> None:
        self._keys = keys
        self._proxies = proxies
        self._sessions = sessions

    def known(self, scope: Scope) -> ApiKey | None:
        """Return the caller's Bearer key if it is cached: a few microseconds, for hot paths.

        Returns None also if the key is near its rate limit or its rules refuse it: call `authenticate` then.
        Raises `RateLimited`, and `ValidationFailed` as `authenticate`.
        """
        token = bearer_token(scope["headers"])
        key = None if token is None else self._keys.get(token)
        if key is None or self._refusal(scope, key) is not None:
            return None
        self._keys.mark_used(key.key_id)
        limits = limits_of(scope)
        if limits is not None and not limits.take_for_key(scope, key):
            return None
        refuse_unknown_parameters(scope)
        return key

    async def authenticate(self, scope: Scope) -> ApiKey:
        """Return the caller's key by `Authorization: Bearer`, or by its session.

        Raises `Unauthorized`, `AddressRefused` and `RateLimited`, and `ValidationFailed` for query parameters that
        the route does not have.
        """
        token = bearer_token(headers_of(scope))
        if token is None:
            key = await self._by_session(scope)
        else:
            key = await self.by_token(scope, token)
        await _charge(scope, key)
        refuse_unknown_parameters(scope)
        return key

    async def by_token(self, scope: Scope, token: str) -> ApiKey:
        """Return the key of `token`. Raises as `admit`, and `RateLimited` after too many wrong tokens."""
        key = self._keys.get(token)
        if key is not None:
            return await self.admit(scope, key)
        limits = limits_of(scope)
        if limits is not None:
            limits.refuse_after_failures(scope)
        key = await self._keys.find(token)
        if key is None:
            await _charge_failure(scope)
            raise Unauthorized("This API key is unknown.")
        return await self.admit(scope, key)

    async def admit(self, scope: Scope, key: ApiKey) -> ApiKey:
        """Return `key` if its rules admit this caller. Raises `Unauthorized` and `AddressRefused`."""
        refusal = self._refusal(scope, key)
        if refusal is not None:
            await _charge_failure(scope)
            raise refusal
        self._keys.mark_used(key.key_id)
        self.note_actor(scope, "key", key.key_id)
        return key

    def note_actor(self, scope: Scope, kind: str, name: str) -> None:
        """Make the caller the actor of the events that the current task records from now on."""
        CURRENT.set(Actor(kind, name, self._proxies.origin(scope)))

    def _refusal(self, scope: Scope, key: ApiKey) -> TallyError | None:
        if key.rules.expires is not None and time.time_ns() // 1000 >= key.rules.expires:
            return Unauthorized("This API key has expired.")
        if not key.rules.networks:
            return None
        address = self._proxies.address(scope)
        if address is None or not any(address in network for network in networks_of(key)):
            return AddressRefused("This API key may not be used from this address.")
        return None

    async def _by_session(self, scope: Scope) -> ApiKey:
        headers = headers_of(scope)
        cookies, over_tls = cookies_of(headers), scope.get("scheme") == "https"
        if self._sessions is None or COOKIE not in cookies:
            raise Unauthorized("Send the API key as the header Authorization: Bearer <key>.")
        key_id = await self._sessions.key_id(cookies, over_tls)
        if key_id is None:
            await _charge_failure(scope)
            raise Unauthorized("The session has ended. Log in again.")
        if scope["method"] not in SAFE_METHODS and not from_own_origin(headers):
            raise Unauthorized(
                "A session allows this request only from pages of this origin, named by the header Origin."
            )
        key = await self._keys.find_id(key_id)
        if key is None:
            raise Unauthorized("The session's API key has been revoked. Log in with another.")
        return await self.admit(scope, key)

    async def authenticate_legacy(self, scope: Scope) -> ApiKey:
        """Return the key by `service-brand` (the account) and `service-key`. Raises as `authenticate`."""
        headers = headers_of(scope)
        brand = header(headers, b"service-brand")
        token = header(headers, b"service-key")
        if brand is None or token is None:
            raise Unauthorized("Send the headers service-brand and service-key.")
        key = await self.by_token(scope, token)
        if key.account != brand:
            raise Unauthorized("This brand and key do not belong together, or are not known here.")
        await _charge(scope, key)
        refuse_unknown_parameters(scope)
        return key


def networks_of(key: ApiKey) -> Sequence[Network]:
    """Return the networks that may use the key; none: all."""
    return _parsed(",".join(key.rules.networks))


_parsed: Final = lru_cache(maxsize=1_000)(parse_networks)


async def _charge_failure(scope: Scope) -> None:
    limits = limits_of(scope)
    if limits is not None:
        await limits.charge_failure(scope)


async def _charge(scope: Scope, key: ApiKey) -> None:
    limits = limits_of(scope)
    if limits is not None:
        await limits.charge_key(scope, key)


def require(key: ApiKey, permission: str) -> None:
    """Raises `Forbidden`, naming the permission, if `key` lacks it."""
    if permission not in key.permissions:
        raise Forbidden(permission)


def from_own_origin(headers: Headers) -> bool:
    """Return whether `Origin` names the requested host; the scheme is not compared, as a proxy may end TLS."""
    origin, host = header(headers, b"origin"), header(headers, b"host")
    return origin is not None and host is not None and origin.partition("://")[2].lower() == host.lower()


def bearer_token(headers: Headers) -> str | None:
    value = header(headers, b"authorization")
    if value is None or value[:7].lower() != "bearer ":
        return None
    return value[7:].strip() or None


def cookies_of(headers: Headers) -> str:
    """Return all cookies of a request, as in one header `Cookie`."""
    return "; ".join(value.decode("latin-1") for name, value in headers if name == b"cookie")


def header(headers: Headers, name: bytes) -> str | None:
    """Return the first value of a header; `name` in lower case."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


def headers_of(scope: Scope) -> Headers:
    found: Headers = scope["headers"]
    return found
