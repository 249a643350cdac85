"""The id of an object store: random, made once, and copied with the store's contents."""

import secrets
from typing import Final

from libs.storage.store import Store

NAME: Final = "secrets/store"
"""Below the secrets, so an export that has those has it, too."""


async def find_store_id(store: Store) -> str | None:
    """None where the store was never used, or has lost its contents. Raises `StorageUnavailable`."""
    found = await store.get(NAME)
    return None if found is None else found.decode()


async def make_store_id(store: Store) -> str:
    """The store's id, made if it has none: every caller gets the same. Raises `StorageUnavailable`."""
    return (await store.get_or_put(NAME, lambda: secrets.token_hex(16).encode())).decode()
