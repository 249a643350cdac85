"""API keys and finders of keys without servers."""

from dataclasses import dataclass

from libs.web.door.client_address import Network


@dataclass(frozen=True)
class Key:
    key_id: str = "k"
    rate: int | None = None
    account: str = "acme"
    permissions: frozenset[str] = frozenset()
    expires: int | None = None
    networks: tuple[Network, ...] = ()
    ancestors: tuple["Key", ...] = ()


class Keys:
    """Finds no key: tests override what they need."""

    def get(self, token: str) -> Key | None:
        return None

    async def find(self, token: str) -> Key | None:
        return None

    async def find_id(self, key_id: str) -> Key | None:
        return None

    def mark_used(self, key_id: str) -> None: ...
