"""The bytes of files: in the object store, under names of their own; which of them hold, the records say.

Bytes that no record names (of a process that died between the two) are taken away with the next PUT or DELETE at
the same file.
"""

import hashlib
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from libs.catalogue.record_service import Fits, RecordService, Written
from libs.catalogue.resource import Document
from libs.catalogue.resources import FILES
from libs.catalogue.schemas.media import KeptBytes, kept_bytes, upload_id
from libs.catalogue.writer import Request
from libs.contracts.catalogue import Stored
from libs.media.clamd import Scanner
from libs.media.content_sniffing import TypeCheck
from libs.storage.store import StorageUnavailable, Store, world_files
from libs.tally.errors import NotFound

NAME_BYTES: Final = 12
IDLE_S: Final = 3600
"""Bytes without a record that were written to so recently may be about to get one."""

logger = logging.getLogger(__name__)


class Files:
    """Of one world."""

    def __init__(
        self, namespace: str, record_service: RecordService, store: Store, scanner: Scanner | None = None
    ) -> None:
        self._prefix = f"{world_files(namespace)}files"
        self._record_service = record_service
        self._store = store
        self._scanner = scanner

    async def get(self, account: str, key: str) -> Stored:
        """The file's record. Raises `NotFound`."""
        return await self._record_service.get(FILES, account, key)

    async def put(self, account: str, key: str, chunks: AsyncIterator[bytes], signed: str | None = None) -> Stored:
        """The chunks become the file's bytes, in one step, when all of them have come.

        With `signed`, the `upload_id` of the address that they are sent to, only while that holds.
        Raises what `chunks` raises, `NotFound`, `StorageUnavailable`, and as `RecordService.amend`: where the
        outcome is unknown either bytes may hold, and the same PUT may be sent again.
        """
        stored = await self.get(account, key)
        file_type: str = stored.document["file_type"]
        name, check = secrets.token_hex(NAME_BYTES), TypeCheck(file_type)
        digest, size = hashlib.sha256(), 0

        async def looked_at() -> AsyncIterator[bytes]:
            nonlocal size
            async for chunk in chunks:
                size += len(chunk)
                digest.update(chunk)
                check.feed(chunk)
                yield chunk

        await self._store.write(self._object(account, key, name), looked_at())
        scanned = await self._scan(account, key, name, size)
        kept = KeptBytes(name, size, digest.hexdigest(), file_type, check.passed(), scanned)
        before: KeptBytes | None = None

        def change(document: Document) -> Document:
            nonlocal before
            _refuse_renewed(document, signed)
            before = kept_bytes(document)
            return document | {"bytes": kept.stored()}

        try:
            stored = await self._record_service.amend(FILES, account, key, change)
        except NotFound:
            await self._store.delete(self._object(account, key, name))
            raise
        await self._tidy(account, key, before, name)
        return stored

    async def _scan(self, account: str, key: str, name: str, size: int) -> bool:
        """Whether a scanner passed the object; False without one.

        It reads what was stored: a client that sends slowly holds no scan up. What does not pass is deleted.
        """
        if self._scanner is None:
            return False
        try:
            chunks = await self.read(account, key, name, 0, size) if size else _nothing()
            if chunks is not None:
                await self._scanner.scan(chunks)
        except BaseException:
            with suppress(StorageUnavailable):  # then the next PUT or DELETE takes it away
                await self._store.delete(self._object(account, key, name))
            raise
        return chunks is not None

    async def read(self, account: str, key: str, name: str, start: int, end: int) -> AsyncIterator[bytes] | None:
        """Some bytes (at least one) of the object `name`; None where they were replaced or deleted meanwhile."""
        return await self._store.read(self._object(account, key, name), start, end)

    async def renew(self, account: str, key: str, request: Request) -> Written:
        """The file with another address, once for a repeated `request`. Raises as `RecordService.amend`."""
        new = {"upload_id": secrets.token_hex(NAME_BYTES)}
        return await self._record_service.amend_once(FILES, account, key, lambda document: document | new, request)

    async def drop(self, account: str, key: str, signed: str | None = None) -> None:
        """The file has no bytes any more, whether it had some or not. Raises as `put`."""
        before: KeptBytes | None = None

        def change(document: Document) -> Document:
            nonlocal before
            _refuse_renewed(document, signed)
            before = kept_bytes(document)
            return {name: value for name, value in document.items() if name != "bytes"}

        await self._record_service.amend(FILES, account, key, change)
        await self._tidy(account, key, before, None)

    async def delete(self, account: str, key: str, fits: Fits | None) -> None:
        """The record, then its bytes; sent again after a failure, it takes away what is left of them.

        Raises as `RecordService.delete`, and `StorageUnavailable`.
        """
        try:
            await self._record_service.delete(FILES, account, key, fits)
        except NotFound:
            if key.isalnum():  # else it never was one, and no name of a folder either
                await self._store.sweep(self._folder(account, key))
            raise
        await self._store.sweep(self._folder(account, key))

    async def _tidy(self, account: str, key: str, before: KeptBytes | None, now: str | None) -> None:
        """What is left over waits for the next time where the object store is away."""
        keep = None if now is None else self._object(account, key, now)
        try:
            if before is not None:
                await self._store.delete(self._object(account, key, before.object))
            await self._store.sweep(self._folder(account, key), keep, IDLE_S)
        except StorageUnavailable as error:
            logger.warning("bytes of file %s that nobody needs are left over: %s", key, error)

    def _folder(self, account: str, key: str) -> str:
        return f"{self._prefix}/{account}/{key}"

    def _object(self, account: str, key: str, name: str) -> str:
        return f"{self._folder(account, key)}/{name}"


def _refuse_renewed(document: Document, signed: str | None) -> None:
    if signed is not None and signed != upload_id(document):
        raise NotFound("There is nothing at this address.")


async def _nothing() -> AsyncIterator[bytes]:
    for chunk in tuple[bytes, ...]():
        yield chunk
