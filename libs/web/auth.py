"""Who calls, and what their key allows, for both API generations."""

from collections.abc import Iterable
from typing import Protocol

from libs.web.errors import Forbidden, Scope, Unauthorized

Headers = Iterable[tuple[bytes, bytes]]
"""As in an ASGI scope: lower-case names."""


class ApiKey(Protocol):
    """What a known key says of its holder."""

    @property
    def key_id(self) -> str: ...
    @property
    def account(self) -> str: ...
    @property
    def permissions(self) -> frozenset[str]: ...


class KeyFinder(Protocol):
    """The keys of one world."""

    def get(self, token: str) -> ApiKey | None:
        """The key that `token` is, as far as this process knows it now: memory only."""

    async def find(self, token: str) -> ApiKey | None:
        """The same, after looking whether the key is a new one. Raises `ViewsUnavailable` when nobody can tell."""


class Authenticator:
    """Bearer keys of the current API and brand and key of the legacy one, over the keys of one world."""

    def __init__(self, keys: KeyFinder) -> None:
        self._keys = keys

    def known(self, headers: Headers) -> ApiKey | None:
        """The caller's key if this process holds it: a plain call of a few microseconds, for hot paths."""
        token = bearer_token(headers)
        return None if token is None else self._keys.get(token)

    async def authenticate(self, headers: Headers) -> ApiKey:
        """The caller by `Authorization: Bearer`. Raises `Unauthorized`."""
        token = bearer_token(headers)
        if token is None:
            raise Unauthorized("Send the API key as the header Authorization: Bearer <key>.")
        key = self._keys.get(token) or await self._keys.find(token)
        if key is None:
            raise Unauthorized("This API key is not known here.")
        return key

    async def authenticate_legacy(self, headers: Headers) -> ApiKey:
        """The caller by `service-brand` (the account) and `service-key`. Raises `Unauthorized`."""
        brand = header(headers, b"service-brand")
        token = header(headers, b"service-key")
        if brand is None or token is None:
            raise Unauthorized("Send the headers service-brand and service-key.")
        key = self._keys.get(token) or await self._keys.find(token)
        if key is None or key.account != brand:
            raise Unauthorized("This brand and key do not belong together, or are not known here.")
        return key


def require(key: ApiKey, permission: str) -> None:
    """Raises `Forbidden`, naming the permission, where `key` lacks it."""
    if permission not in key.permissions:
        raise Forbidden(permission)


def bearer_token(headers: Headers) -> str | None:
    value = header(headers, b"authorization")
    if value is None or value[:7].lower() != "bearer ":
        return None
    return value[7:].strip() or None


def header(headers: Headers, name: bytes) -> str | None:
    """The first value of a header; `name` in lower case."""
    for key, value in headers:
        if key == name:
            return value.decode("latin-1")
    return None


def headers_of(scope: Scope) -> Headers:
    found: Headers = scope["headers"]
    return found
