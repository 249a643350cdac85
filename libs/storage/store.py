"""Bytes under a name: a directory here, a bucket elsewhere. With the log it is the truth: a backup takes both."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import LocalStore, ObjectStore, from_url

from libs.tally.errors import TallyError

T = TypeVar("T")

TIMEOUT_S: Final = 10.0


class StorageUnavailable(TallyError):
    """The object store did not answer, or refused. What was to be written may or may not be there."""

    code = "views_unavailable"


class Store:
    """Small objects, written once; `replace` is for those that are to be gone."""

    def __init__(self, backend: ObjectStore) -> None:
        self._backend = backend

    async def get(self, name: str) -> bytes | None:
        """The object, or None. Raises `StorageUnavailable`."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                found = await obstore.get_async(self._backend, name)
                return bytes(await found.bytes_async())
        except (NotFoundError, FileNotFoundError):
            return None
        except (BaseError, OSError, TimeoutError) as error:
            raise StorageUnavailable(f"object store: {error}", retry_after_s=1) from error

    async def replace(self, name: str, value: bytes) -> None:
        """In one step, whatever was there. Raises `StorageUnavailable`."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await obstore.put_async(self._backend, name, value)
        except (BaseError, OSError, TimeoutError) as error:
            raise StorageUnavailable(f"object store: {error}", retry_after_s=1) from error

    async def put_if_absent(self, name: str, value: bytes) -> bool:
        """Whether this call wrote it: of several at once exactly one does. Raises `StorageUnavailable`."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await obstore.put_async(self._backend, name, value, mode="create")
        except (AlreadyExistsError, FileExistsError):
            return False
        except (BaseError, OSError, TimeoutError) as error:
            raise StorageUnavailable(f"object store: {error}", retry_after_s=1) from error
        return True

    async def get_or_put(self, name: str, make: Callable[[], bytes]) -> bytes:
        """The object, made if it was not there: everybody gets the same."""
        found = await self.get(name)
        if found is None:
            made = make()
            found = made if await self.put_if_absent(name, made) else await self.get(name)
        if found is None:
            raise StorageUnavailable(f"object store: {name} vanished", retry_after_s=1)
        return found

    async def names(self, prefix: str) -> list[str]:
        """Of all objects below `prefix`, in order. Raises `StorageUnavailable`."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return sorted([row["path"] async for rows in obstore.list(self._backend, prefix) for row in rows])
        except (BaseError, OSError, TimeoutError) as error:
            raise StorageUnavailable(f"object store: {error}", retry_after_s=1) from error

    async def delete(self, name: str) -> None:
        """Gone, whether it was there or not. Raises `StorageUnavailable`."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await obstore.delete_async(self._backend, name)
        except (NotFoundError, FileNotFoundError):
            return
        except (BaseError, OSError, TimeoutError) as error:
            raise StorageUnavailable(f"object store: {error}", retry_after_s=1) from error


def world_files(namespace: str) -> str:
    """What the names of all files and images of one world begin with; it goes when that world is wiped."""
    return f"worlds/{namespace}/"


def open_store(url: str) -> Store:
    """The store at `url`, or in the directory of that name; a directory is made, readable by its owner alone."""
    parts = urlsplit(url)
    if parts.scheme not in ("", "file"):
        return Store(from_url(url))
    directory = Path(unquote(parts.path) if parts.scheme else url)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Store(LocalStore(directory))
