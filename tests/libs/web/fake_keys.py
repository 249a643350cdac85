"""API keys and finders of keys without servers."""

from dataclasses import dataclass

from libs.contracts.catalogue_events import KeyAncestor
from libs.web.door.auth import ApiKey


@dataclass(frozen=True, slots=True)
class Key(ApiKey):
    key_id: str = "k"
    account: str = "acme"
    permissions: frozenset[str] = frozenset()


def above(*keys: ApiKey) -> tuple[KeyAncestor, ...]:
    """The ancestors of a key that `keys` made."""
    return tuple(KeyAncestor(key.key_id, key.rate) for key in keys)


class Keys:
    """Finds no key: tests override what they need."""

    def get(self, token: str) -> Key | None:
        return None

    async def find(self, token: str) -> Key | None:
        return None

    async def find_id(self, key_id: str) -> Key | None:
        return None

    def mark_used(self, key_id: str) -> None: ...
