"""Bytes under a name: a directory here, a bucket elsewhere. With the log it is the truth: a backup takes both.

Tests run over directories, and over S3 as moto speaks it; Google's and Azure's buckets are the same library's.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import LocalStore, ObjectStore, from_url

from libs.tally.errors import TallyError
from libs.telemetry.redaction import SecretUrl, revealed

T = TypeVar("T")

TIMEOUT_S: Final = 10.0
PART_BYTES: Final = 5 << 20
"""What a streamed object is sent in; buckets take no smaller parts. With `PARTS_AT_ONCE` it bounds the memory."""
PARTS_AT_ONCE: Final = 2
CHUNK_BYTES: Final = 256 << 10
"""Least that a streamed object is read in."""


NO_ANSWER: Final = "Stored files cannot be reached at the moment."
"""All that a caller is told, whatever the object store or the way to it said."""


class StorageUnavailable(TallyError):
    """The object store did not answer, or refused. What was to be written may or may not be there."""

    code = "views_unavailable"


class Store:
    """Small objects, written once, and large ones, streamed; `replace` is for those that are to be gone."""

    def __init__(self, backend: ObjectStore) -> None:
        self._backend = backend

    async def get(self, name: str) -> bytes | None:
        """The object, or None. Raises `StorageUnavailable`."""
        async with _answering():
            try:
                found = await obstore.get_async(self._backend, name)
                return bytes(await found.bytes_async())
            except (NotFoundError, FileNotFoundError):
                return None

    async def replace(self, name: str, value: bytes) -> None:
        """In one step, whatever was there. Raises `StorageUnavailable`."""
        async with _answering():
            await obstore.put_async(self._backend, name, value)

    async def put_if_absent(self, name: str, value: bytes) -> bool:
        """Whether this call wrote it: of several at once exactly one does. Raises `StorageUnavailable`."""
        async with _answering():
            try:
                await obstore.put_async(self._backend, name, value, mode="create")
            except (AlreadyExistsError, FileExistsError):
                return False
        return True

    async def get_or_put(self, name: str, make: Callable[[], bytes]) -> bytes:
        """The object, made if it was not there: everybody gets the same."""
        found = await self.get(name)
        if found is None:
            made = make()
            found = made if await self.put_if_absent(name, made) else await self.get(name)
        if found is None:
            raise StorageUnavailable(NO_ANSWER, retry_after_s=1, cause=f"{name} vanished")
        return found

    async def write(self, name: str, chunks: AsyncIterator[bytes]) -> None:
        """The object, as its bytes come in, in one step when all have come; what breaks off leaves none.

        Takes as long as the bytes do. Raises what `chunks` raises, and `StorageUnavailable`.
        """
        async with _answering(timeout_s=None):
            await obstore.put_async(
                self._backend, name, chunks, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            )

    async def read(self, name: str, start: int, end: int) -> AsyncIterator[bytes] | None:
        """Bytes `start` up to but not including `end` (at least one) of the object, or None where there is none.

        Whoever has begun to read gets them all, also when the object is deleted meanwhile. Raises
        `StorageUnavailable`.
        """
        async with _answering():
            try:
                found = await obstore.get_async(self._backend, name, options={"range": (start, end)})
            except (NotFoundError, FileNotFoundError):
                return None
        return aiter(found.stream(CHUNK_BYTES))

    async def names(self, prefix: str) -> list[str]:
        """Of all objects below `prefix`, in order. Raises `StorageUnavailable`."""
        async with _answering():
            return sorted([row["path"] async for rows in obstore.list(self._backend, prefix) for row in rows])

    async def delete(self, name: str) -> None:
        """Gone, whether it was there or not. Raises `StorageUnavailable`."""
        async with _answering():
            try:
                await obstore.delete_async(self._backend, name)
            except (NotFoundError, FileNotFoundError):
                return

    async def sweep(self, prefix: str, keep: str | None = None, idle_s: float = 0) -> None:
        """Delete all below `prefix` but `keep` and what was written to within `idle_s`.

        In a directory also what a process left that was killed while it wrote; a bucket needs a rule of its own
        that aborts incomplete uploads. Raises `StorageUnavailable`.
        """
        before = datetime.now(UTC) - timedelta(seconds=idle_s)
        async with _answering():
            rows = [row async for rows in obstore.list(self._backend, prefix) for row in rows]
            old = [row["path"] for row in rows if row["path"] != keep and row["last_modified"] <= before]
            for name in old:
                await self.delete(name)
            if isinstance(self._backend, LocalStore):
                await asyncio.to_thread(_sweep_parts, Path(str(self._backend.prefix), prefix), before)


@asynccontextmanager
async def _answering(timeout_s: float | None = TIMEOUT_S) -> AsyncIterator[None]:
    """What the object store answers, or fails to, in its own words."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (BaseError, OSError, TimeoutError) as error:
        raise StorageUnavailable(NO_ANSWER, retry_after_s=1, cause=error) from error


def _sweep_parts(directory: Path, before: datetime) -> None:
    """The files that a local store writes to before it gives them their name; it lists none of them."""
    for part in directory.glob("*#*"):
        with suppress(FileNotFoundError):
            if datetime.fromtimestamp(part.stat().st_mtime, UTC) <= before:
                part.unlink()


def world_files(namespace: str) -> str:
    """What the names of all files and images of one world begin with; it goes when that world is wiped."""
    return f"worlds/{namespace}/"


def open_store(url: SecretUrl | str) -> Store:
    """The store at `url`, or in the directory of that name; a directory is made, readable by its owner alone."""
    url = revealed(url)
    parts = urlsplit(url)
    if parts.scheme not in ("", "file"):
        return Store(from_url(url))
    directory = Path(unquote(parts.path) if parts.scheme else url)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Store(LocalStore(directory))
