"""Secrets of 32 random bytes, created on first use, the same in every process. Only the server's own are rotated
(`secret_rings.py`).

Votes can be linked to voters only with the contest's secret; losing it loses that for ever. Callers cache secrets.
An erased secret leaves a marker in its place, so that no new one is created.
"""

import secrets
from typing import Final

from libs.storage.object_store import Store
from libs.tally.errors import SecretErased

SECRET_BYTES: Final = 32
ERASED: Final = b"erased"
SERVER: Final = "secrets/server"


async def contest_secret(store: Store, contest: str) -> bytes:
    """Return the secret for the pseudonyms of a contest's voters. Raises `StorageUnavailable`, `SecretErased`."""
    return _whole(contest, await _secret(store, contest_secret_name(contest)))


async def find_contest_secret(store: Store, contest: str) -> bytes | None:
    """Return the same secret, None if it was not created yet. Raises the errors of `contest_secret`."""
    found = await store.get(contest_secret_name(contest))
    return None if found is None else _whole(contest, found)


async def erase_contest_secret(store: Store, contest: str) -> None:
    """Erase the secret for good, even before its creation; may be repeated. Raises `StorageUnavailable`."""
    await store.replace(contest_secret_name(contest), ERASED)


async def account_secret(store: Store, account: str) -> bytes:
    """Return the encryption secret of personal data in an account's purchases. Raises `StorageUnavailable`."""
    return await _secret(store, account_secret_name(account))


async def server_secret(store: Store, name: str) -> bytes:
    """Return the first signing secret of a purpose (`name`): receipts, upload addresses and so on.

    Raises `StorageUnavailable`.
    """
    return await _secret(store, f"{SERVER}/{name}")


async def check_secrets(store: Store) -> None:
    """Check that secrets can be read, for health checks. Raises `StorageUnavailable`."""
    await store.get(f"{SERVER}/receipts")


def contest_secret_name(contest: str) -> str:
    return f"secrets/contests/{contest}"


def account_secret_name(account: str) -> str:
    return f"secrets/accounts/{account}"


def _whole(contest: str, secret: bytes) -> bytes:
    if secret == ERASED:
        raise SecretErased(contest)
    return secret


async def _secret(store: Store, name: str) -> bytes:
    return await store.get_or_put(name, lambda: secrets.token_bytes(SECRET_BYTES))
