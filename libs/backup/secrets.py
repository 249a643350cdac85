"""Exports and imports the logs' secrets, which link votes to voters."""

import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

import orjson

from libs.backup.manifest import ExportRefused, ImportRefused
from libs.contracts.catalogue_events import OperatorActed, catalogue_codec, contests_of
from libs.contracts.codec import Undecodable
from libs.contracts.log_records import LogRecord
from libs.storage.object_store import STORE_ID, Store
from libs.storage.private_files import write_private
from libs.storage.secrets import SERVER, account_secret_name, contest_secret_name
from libs.tally.events import LogCreated, LogLost

PREFIX: Final = "secrets"
FILE: Final = "secrets.json"
CATALOGUES: Final = ("catalogue", "test-catalogue")
"""Kinds of logs that name contests and accounts."""
_OF_SERVER: Final = re.compile(rf"{SERVER}/[a-z]+( [a-z]+)*(\.[0-9]{{16}})?")


def names_of(records: Iterable[LogRecord]) -> set[str]:
    """Return the names that the secrets of a catalogue's contests and accounts have."""
    names = set()
    for event in catalogue_codec.decode_many([record.value for record in records]):
        if isinstance(event, Undecodable | LogCreated | LogLost | OperatorActed):
            continue
        names |= {account_secret_name(event.account), *map(contest_secret_name, contests_of(event))}
    return names


def check_names(secrets: Iterable[str], of_catalogue: Collection[str]) -> None:
    """Raise `ImportRefused` for a secret that is neither the server's nor of the export's own catalogue."""
    for name in secrets:
        is_plain = not {".", ".."} & set(name.split("/"))
        if not is_plain or (name not in of_catalogue and not is_of_server(name)):
            raise ImportRefused(f"The export holds a secret of nothing in it: {name}.")


def is_of_server(name: str) -> bool:
    """Return whether a secret belongs to all namespaces of its object store."""
    return name == STORE_ID or _OF_SERVER.fullmatch(name) is not None


def hash_of(secret: bytes) -> str:
    return sha256(secret).hexdigest()


async def hashes_of(store: Store, of_catalogue: Collection[str]) -> dict[str, str]:
    """Return the hashes of the server's secrets and the catalogue's, by name.

    A secret is 32 random bytes, so its hash reveals nothing.
    """
    names = [name for name in await store.names(PREFIX) if name in of_catalogue or is_of_server(name)]
    return {name: hash_of(secret) for name, secret in (await _read(store, names)).items()}


async def write_secrets(store: Store, directory: Path, hashes: dict[str, str]) -> None:
    """Write the secrets. Raises `ExportRefused` if one changed since the export began."""
    found = await _read(store, hashes)
    for name, wanted in hashes.items():
        if name not in found or hash_of(found[name]) != wanted:
            raise ExportRefused(f"{name} is not in the object store any more: export to another directory.")
    write_private(directory / FILE, orjson.dumps({name: b64encode(found[name]).decode() for name in hashes}))


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
    """Return the names that the object store lacks, of a used one without the server's: it has its own.

    Raises `ImportRefused` if it has a different secret.
    """
    found = await _read(store, hashes)
    for name, secret in found.items():
        if hash_of(secret) != hashes[name]:
            raise ImportRefused(
                f"The object store holds another {name}: import into one of its own (TALLY_STORAGE_URL)."
            )
    is_used = STORE_ID in found or any(map(is_of_server, set(await store.names(PREFIX)) - set(hashes)))
    return [name for name in hashes if name not in found and not (is_used and is_of_server(name))]


async def put_secrets(store: Store, secrets: dict[str, bytes]) -> None:
    """Store the missing secrets. Raises `ImportRefused` as `missing_secrets`."""
    hashes = {name: hash_of(secret) for name, secret in secrets.items()}
    # the id comes last: an object store that has it is used, which an interrupted import must not make it
    for name in sorted(await missing_secrets(store, hashes), key=lambda name: name == STORE_ID):
        await store.put_if_absent(name, secrets[name])
    await missing_secrets(store, hashes)


async def _read(store: Store, names: Iterable[str]) -> dict[str, bytes]:
    found = {name: await store.get(name) for name in names}
    return {name: secret for name, secret in found.items() if secret is not None}
