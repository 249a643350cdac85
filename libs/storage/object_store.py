"""The object store: bytes by name, in a directory or a bucket. It and the log are the data to back up.

What a call has written survives a power cut: a bucket's service answers so, and a directory's files are flushed.
Tests use directories, and S3 as moto emulates it; the same library serves Google's and Azure's buckets.
"""

import asyncio
import os
import secrets
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import LocalStore, ObjectStore, from_url
from pydantic import Field

from libs.storage.private_files import NotPrivate, check_owner, default_data_dir, flush_file
from libs.tally.errors import TallyError
from libs.telemetry.environment_settings import EnvironmentSettings
from libs.telemetry.redaction import SecretUrl, revealed

T = TypeVar("T")

TIMEOUT_S: Final = 10.0
PART_BYTES: Final = 5 << 20
"""Size of a streamed object's parts, the least that buckets accept. With `PARTS_AT_ONCE` it bounds the memory."""
PARTS_AT_ONCE: Final = 2
CHUNK_BYTES: Final = 256 << 10
"""Least size of the chunks that a streamed object is read in."""
NO_ANSWER: Final = "Stored files cannot be reached at the moment."
"""The message for callers, whatever the cause."""
STORE_ID: Final = "secrets/store"
"""Where the store's id is: random, created once; one of the secrets, so that exports with secrets include it."""


class StorageSettings(EnvironmentSettings):
    storage_url: SecretUrl = Field(
        default_factory=lambda: SecretUrl(str(default_data_dir() / "objects")),
        description="Object store for files and secrets: a directory (or file:///dir), s3://bucket, gs:// or "
        "az://; absent: objects/ in the data directory of `tally up`. "
        "Buckets take credentials from the environment (AWS_*, GOOGLE_*, AZURE_*).",
    )


class StorageUnavailable(TallyError):
    """The object store did not respond, or refused. A write may or may not have succeeded."""

    code = "views_unavailable"


class Store:
    """Small objects, written once, and large ones, streamed; `replace` overwrites."""

    def __init__(self, backend: ObjectStore) -> None:
        self._backend = backend
        self._directory = Path(str(backend.prefix)) if isinstance(backend, LocalStore) else None

    async def get(self, name: str) -> bytes | None:
        """Return the object, or None. Raises `StorageUnavailable`."""
        async with _answering():
            try:
                found = await obstore.get_async(self._backend, name)
                return bytes(await found.bytes_async())
            except (NotFoundError, FileNotFoundError):
                return None

    async def replace(self, name: str, value: bytes) -> None:
        """Write or overwrite the object atomically. Raises `StorageUnavailable`."""
        async with _answering():
            await obstore.put_async(self._backend, name, value)
            await self._secure(name)

    async def put_if_absent(self, name: str, value: bytes) -> bool:
        """Return whether this call wrote it: of concurrent calls exactly one does. Raises `StorageUnavailable`."""
        async with _answering():
            try:
                await obstore.put_async(self._backend, name, value, mode="create")
            except (AlreadyExistsError, FileExistsError):
                return False
            await self._secure(name)
        return True

    async def get_or_put(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return the object, created if it is missing: every caller gets the same. Raises `StorageUnavailable`.

        It is on the disk, also if another process wrote it a moment ago and is not done: votes may depend on it.
        """
        found = await self.get(name)
        if found is None:
            made = make()
            found = made if await self.put_if_absent(name, made) else await self.get(name)
        if found is None:
            raise StorageUnavailable(NO_ANSWER, retry_after_s=1, cause=f"{name} vanished")
        async with _answering():
            await self._secure(name)
        return found

    async def write(self, name: str, chunks: AsyncIterator[bytes]) -> None:
        """Stream an object. It appears atomically after the last chunk; an interrupted write leaves none.

        There is no timeout. Raises the errors of `chunks`, and `StorageUnavailable`.
        """
        async with _answering(timeout_s=None):
            await obstore.put_async(
                self._backend, name, chunks, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            )
            await self._secure(name)

    async def _secure(self, name: str) -> None:
        """Flush a file to the disk, and take its permissions from others; its directory alone kept them out."""
        if self._directory is not None:
            await asyncio.to_thread(_secure_file, self._directory / name, self._directory)

    async def read(self, name: str, start: int, end: int) -> AsyncIterator[bytes] | None:
        """Stream the bytes from `start` to `end` (exclusive; at least one) of the object; None if it is missing.

        A read that has begun gets all bytes, even if the object is deleted meanwhile. Raises
        `StorageUnavailable`.
        """
        async with _answering():
            try:
                found = await obstore.get_async(self._backend, name, options={"range": (start, end)})
            except (NotFoundError, FileNotFoundError):
                return None
        return aiter(found.stream(CHUNK_BYTES))

    async def names(self, prefix: str) -> list[str]:
        """Return the sorted names of all objects below `prefix`. Raises `StorageUnavailable`."""
        return list(await self.sizes(prefix))

    async def sizes(self, prefix: str) -> dict[str, int]:
        """Return the sizes of all objects below `prefix` by their names, sorted. Raises `StorageUnavailable`."""
        async with _answering():
            rows = [row async for rows in obstore.list(self._backend, prefix) for row in rows]
        return {row["path"]: row["size"] for row in sorted(rows, key=lambda row: row["path"])}

    async def delete(self, name: str) -> None:
        """Delete the object if it exists. Raises `StorageUnavailable`."""
        async with _answering():
            try:
                await obstore.delete_async(self._backend, name)
            except (NotFoundError, FileNotFoundError):
                return

    async def sweep(self, prefix: str, keep: str | None = None, idle_s: float = 0) -> None:
        """Delete all objects below `prefix` except `keep` and those written within the last `idle_s` seconds.

        In a directory also deletes the temporary files of killed processes; a bucket needs a lifecycle rule that
        aborts incomplete uploads. Raises `StorageUnavailable`.
        """
        before = datetime.now(UTC) - timedelta(seconds=idle_s)
        async with _answering():
            rows = [row async for rows in obstore.list(self._backend, prefix) for row in rows]
            old = [row["path"] for row in rows if row["path"] != keep and row["last_modified"] <= before]
            for name in old:
                await self.delete(name)
            if self._directory is not None:
                await asyncio.to_thread(_sweep_parts, self._directory / prefix, before)


@asynccontextmanager
async def _answering(timeout_s: float | None = TIMEOUT_S) -> AsyncIterator[None]:
    """Convert the object store's errors and timeouts to `StorageUnavailable`."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (BaseError, OSError, TimeoutError) as error:
        raise StorageUnavailable(NO_ANSWER, retry_after_s=1, cause=error) from error


def _secure_file(path: Path, below: Path) -> None:
    with suppress(FileNotFoundError):  # deleted meanwhile
        path.chmod(0o600)
        flush_file(path, below)


def _sweep_parts(directory: Path, before: datetime) -> None:
    """Delete the temporary files that a local store renames when complete; it does not list them."""
    for part in directory.glob("*#*"):
        with suppress(FileNotFoundError):
            if datetime.fromtimestamp(part.stat().st_mtime, UTC) <= before:
                part.unlink()


def environment_files(namespace: str) -> str:
    """Return the name prefix of all files and images of one environment; wiping it deletes them."""
    return f"worlds/{namespace}/"


def open_store(url: SecretUrl | str) -> Store:
    """Open the store at `url` or in that directory, which is created if missing, accessible only by its owner.

    Raises `NotPrivate` for a directory of another user than root, which owns the volumes that a container mounts,
    or one that everybody may write to.
    """
    url = revealed(url)
    parts = urlsplit(url)
    if parts.scheme not in ("", "file"):
        return Store(from_url(url))
    directory = Path(unquote(parts.path) if parts.scheme else url)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = directory.stat()
    if found.st_uid != 0:
        check_owner(directory, found)
    if found.st_mode & stat.S_IWOTH and any(directory.iterdir()):
        raise NotPrivate(directory, "everybody could write to it, and it is not empty")
    if found.st_uid == os.geteuid():
        directory.chmod(0o700)
    return Store(LocalStore(directory))


async def find_store_id(store: Store) -> str | None:
    """Return the id, None if the store was never used or has lost its contents. Raises `StorageUnavailable`."""
    found = await store.get(STORE_ID)
    return None if found is None else found.decode()


async def make_store_id(store: Store) -> str:
    """Return the id, created if missing: every caller gets the same. Raises `StorageUnavailable`."""
    return (await store.get_or_put(STORE_ID, lambda: secrets.token_hex(16).encode())).decode()
