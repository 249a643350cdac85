"""Secrets: 32 random bytes each, made when first asked for, the same for every process, never rotated.

Without a contest's secret nobody can tell who voted; losing it loses that for ever. Callers keep what they got.
"""

import secrets
from typing import Final

from libs.storage.store import Store

SECRET_BYTES: Final = 32


async def contest_secret(store: Store, contest: str) -> bytes:
    """Makes the pseudonyms of one contest's voters. Raises `StorageUnavailable`."""
    return await _secret(store, _of_contest(contest))


async def find_contest_secret(store: Store, contest: str) -> bytes | None:
    """The same, or None while nobody has needed it: none is made. Raises `StorageUnavailable`."""
    return await store.get(_of_contest(contest))


async def account_secret(store: Store, account: str) -> bytes:
    """Encrypts what is personal in an account's purchases. Raises `StorageUnavailable`."""
    return await _secret(store, f"secrets/accounts/{account}")


async def server_secret(store: Store, name: str) -> bytes:
    """Signs receipts, upload addresses and the like, one `name` a purpose. Raises `StorageUnavailable`."""
    return await _secret(store, f"secrets/server/{name}")


def _of_contest(contest: str) -> str:
    return f"secrets/contests/{contest}"


async def _secret(store: Store, name: str) -> bytes:
    return await store.get_or_put(name, lambda: secrets.token_bytes(SECRET_BYTES))
