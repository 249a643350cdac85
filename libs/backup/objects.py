"""Exports and imports uploaded files and pictures, which the object store has beside the logs."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from libs.backup.manifest import ExportedObject, ExportRefused, ImportRefused
from libs.deployment.environment_catalogue import Environment
from libs.storage.object_store import CHUNK_BYTES, Store, environment_files
from libs.storage.private_files import flush, open_for_writing

NAME: Final = re.compile(r"(files|images)(/(?!\.{1,2}(/|$))[A-Za-z0-9_.~-]{1,200})+")
"""Names below an environment's prefix; no part of them leads elsewhere."""


def prefix_of(namespace: str, of: Environment) -> str:
    return environment_files(of.namespace(namespace))


async def list_objects(store: Store, namespace: str) -> list[ExportedObject]:
    """Return the objects that exist now, hence those of all earlier records: an object is written first."""
    found: list[ExportedObject] = []
    for of in Environment:
        prefix = prefix_of(namespace, of)
        for name, size in (await store.sizes(prefix)).items():
            file = f"object-{len(found):08d}"
            found.append(ExportedObject(of=of, name=name.removeprefix(prefix), size=size, file=file))
    return found


async def write_object(store: Store, namespace: str, directory: Path, exported: ExportedObject) -> bool:
    """Write an object's file and hash; return False if it was deleted meanwhile.

    Raises `ExportRefused` if it is another one than at the beginning.
    """
    digest, size = sha256(), 0
    with open_for_writing(directory / exported.file) as file:
        file.truncate(0)
        if exported.size:
            chunks = await store.read(prefix_of(namespace, exported.of) + exported.name, 0, exported.size)
            if chunks is None:
                return False
            async for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                await asyncio.to_thread(file.write, chunk)
        await asyncio.to_thread(flush, file)
    if size != exported.size:
        raise ExportRefused(f"{exported.name} was replaced during the export: export to another directory.")
    exported.sha256 = digest.hexdigest()
    return True


def check_names(objects: Sequence[ExportedObject]) -> None:
    """Raise `ImportRefused` for a name that would lie elsewhere than below the target's prefix."""
    for exported in objects:
        if not NAME.fullmatch(exported.name):
            raise ImportRefused(f"The export holds what is neither a file nor an image: {exported.name}.")


async def missing_objects(store: Store, namespace: str, objects: Sequence[ExportedObject]) -> list[ExportedObject]:
    present = {of: await store.sizes(prefix_of(namespace, of)) for of in Environment}
    return [each for each in objects if prefix_of(namespace, each.of) + each.name not in present[each.of]]


async def put_object(store: Store, namespace: str, directory: Path, exported: ExportedObject) -> None:
    """Store an object below the target's own prefix. Its file was checked by `open_export`."""
    await store.write(prefix_of(namespace, exported.of) + exported.name, _chunks(directory / exported.file))


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield chunk
