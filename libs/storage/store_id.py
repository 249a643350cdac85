"""The id of an object store: random, created once, and copied with the store's contents."""

import secrets
from typing import Final

from libs.storage.object_store import Store

NAME: Final = "secrets/store"
"""One of the secrets, so that exports with secrets include it."""


async def find_store_id(store: Store) -> str | None:
    """Return the id, None if the store was never used or has lost its contents. Raises `StorageUnavailable`."""
    found = await store.get(NAME)
    return None if found is None else found.decode()


async def make_store_id(store: Store) -> str:
    """Return the id, created if missing: every caller gets the same. Raises `StorageUnavailable`."""
    return (await store.get_or_put(NAME, lambda: secrets.token_hex(16).encode())).decode()
