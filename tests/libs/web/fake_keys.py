"""API keys, finders of keys and requests without servers."""

from collections.abc import Iterable
from typing import Any

from libs.contracts.catalogue_events import ApiKey, KeyAncestor, KeyRules


class Key(ApiKey):
    def __init__(
        self,
        key_id: str = "k",
        account: str = "acme",
        permissions: Iterable[str] = (),
        *,
        rate: int | None = None,
        expires: int | None = None,
        networks: Iterable[object] = (),
        ancestors: tuple[KeyAncestor, ...] = (),
    ) -> None:
        rules = KeyRules("", expires, tuple(map(str, networks)), rate)
        super().__init__(account, key_id, "", tuple(permissions), 0, rules, ancestors)


def above(*keys: ApiKey) -> tuple[KeyAncestor, ...]:
    """The ancestors of a key that `keys` made."""
    return tuple(KeyAncestor(key.key_id, key.rules.rate) for key in keys)


class Keys:
    """Finds no key: tests override what they need."""

    def get(self, token: str) -> Key | None:
        return None

    async def find(self, token: str) -> Key | None:
        return None

    async def find_id(self, key_id: str) -> Key | None:
        return None

    def mark_used(self, key_id: str) -> None: ...


def scope(peer: str | None = "192.0.2.1", *headers: tuple[str, str], path: str = "/") -> dict[str, Any]:
    """An ASGI scope of a request."""
    client = None if peer is None else (peer, 1)
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return {"method": "GET", "path": path, "client": client, "headers": raw, "state": {}}
