"""API keys and finders of keys without servers."""

from collections.abc import Iterable

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
