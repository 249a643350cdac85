"""Secrets: 32 random bytes each, made when first asked for, the same for every process. Only the server's own are
rotated (`rings.py`).

Without a contest's secret nobody can tell who voted; losing it loses that for ever. Callers keep what they got.
One that was destroyed leaves a mark in its place, so that nobody makes another.
"""

import secrets
from typing import Final

from libs.storage.store import Store
from libs.tally.errors import SecretErased

SECRET_BYTES: Final = 32
ERASED: Final = b"erased"
SERVER: Final = "secrets/server"


async def contest_secret(store: Store, contest: str) -> bytes:
    """Makes the pseudonyms of one contest's voters. Raises `StorageUnavailable`, and `SecretErased`."""
    return _whole(contest, await _secret(store, _of_contest(contest)))


async def find_contest_secret(store: Store, contest: str) -> bytes | None:
    """The same, or None while nobody has needed it: none is made. Raises as `contest_secret`."""
    found = await store.get(_of_contest(contest))
    return None if found is None else _whole(contest, found)


async def erase_contest_secret(store: Store, contest: str) -> None:
    """For good, also where there was none yet; may be repeated. Raises `StorageUnavailable`."""
    await store.replace(_of_contest(contest), ERASED)


async def account_secret(store: Store, account: str) -> bytes:
    """Encrypts what is personal in an account's purchases. Raises `StorageUnavailable`."""
    return await _secret(store, f"secrets/accounts/{account}")


async def server_secret(store: Store, name: str) -> bytes:
    """The first that signs receipts, upload addresses and the like, one `name` a purpose. Raises
    `StorageUnavailable`.
    """
    return await _secret(store, f"{SERVER}/{name}")


async def check_secrets(store: Store) -> None:
    """For health checks: raises `StorageUnavailable` unless secrets can be read now."""
    await store.get(f"{SERVER}/receipts")


def _of_contest(contest: str) -> str:
    return f"secrets/contests/{contest}"


def _whole(contest: str, secret: bytes) -> bytes:
    if secret == ERASED:
        raise SecretErased(contest)
    return secret


async def _secret(store: Store, name: str) -> bytes:
    return await store.get_or_put(name, lambda: secrets.token_bytes(SECRET_BYTES))
