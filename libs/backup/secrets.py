"""Exports and imports the logs' secrets, which link votes to voters."""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

import orjson

from libs.backup.errors import ExportRefused, ImportRefused
from libs.backup.private_files import write_own
from libs.storage.object_store import Store

PREFIX: Final = "secrets"
FILE: Final = "secrets.json"


def hash_of(secret: bytes) -> str:
    return sha256(secret).hexdigest()


async def hashes_of_all(store: Store) -> dict[str, str]:
    """Return all hashes by name. A secret is 32 random bytes, so its hash reveals nothing."""
    names = await store.names(PREFIX)
    return {name: hash_of(secret) for name, secret in (await _read(store, names)).items()}


async def write_secrets(store: Store, directory: Path, hashes: dict[str, str]) -> None:
    """Write the secrets. Raises `ExportRefused` if one changed since the export began."""
    found = await _read(store, hashes)
    for name, wanted in hashes.items():
        if name not in found or hash_of(found[name]) != wanted:
            raise ExportRefused(f"{name} is not in the object store any more: export to another directory.")
    write_own(directory / FILE, orjson.dumps({name: b64encode(found[name]).decode() for name in hashes}))


def read_secrets(directory: Path, hashes: dict[str, str]) -> dict[str, bytes]:
    """Read the secrets. Raises `ImportRefused` unless the file has all of them, unchanged."""
    try:
        found = {name: b64decode(text) for name, text in orjson.loads((directory / FILE).read_bytes()).items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ImportRefused(f"{directory / FILE} cannot be read: {error}") from None
    if {name: hash_of(secret) for name, secret in found.items()} != hashes:
        raise ImportRefused(f"{directory / FILE} is damaged: its secrets are not those of the manifest.")
    return found


async def missing_secrets(store: Store, hashes: dict[str, str]) -> list[str]:
    """Return the names missing in the object store. Raises `ImportRefused` if it has a different secret."""
    found = await _read(store, hashes)
    for name, secret in found.items():
        if hash_of(secret) != hashes[name]:
            raise ImportRefused(
                f"The object store holds another {name}: import into one of its own (TALLY_STORAGE_URL)."
            )
    return [name for name in hashes if name not in found]


async def put_secrets(store: Store, secrets: dict[str, bytes]) -> None:
    """Store the missing secrets. Raises `ImportRefused` as `missing_secrets`."""
    for name, secret in secrets.items():
        await store.put_if_absent(name, secret)
    await missing_secrets(store, {name: hash_of(secret) for name, secret in secrets.items()})


async def _read(store: Store, names: Iterable[str]) -> dict[str, bytes]:
    found = {name: await store.get(name) for name in names}
    return {name: secret for name, secret in found.items() if secret is not None}
