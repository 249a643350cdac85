"""Files' bytes in the object store, under a new object name for each upload; the record names the current one.

Objects that no record names (after a crash between the two writes) are deleted by the next PUT or DELETE of the
file.
"""

import hashlib
import hmac
import logging
import secrets
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final

from libs.catalogue.commands import WriteRequest
from libs.catalogue.records import Fits, RecordService, Written
from libs.catalogue.resource_definition import Document
from libs.catalogue.resource_table import FILES
from libs.catalogue.schemas.media import KeptBytes, kept_bytes, upload_id
from libs.contracts.catalogue_events import Stored
from libs.media.clamd import Clamd
from libs.media.content_sniffing import TypeCheck
from libs.storage.object_store import StorageUnavailable, Store, environment_files
from libs.storage.secret_rings import SecretRing
from libs.tally.errors import NotFound
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.web.door.auth import ApiKey

NAME_BYTES: Final = 12
IDLE_S: Final = 3600
"""Objects without a record are kept this long after their last write: their record may follow."""

logger = logging.getLogger(__name__)


class Files:
    """Stores, reads and deletes the bytes of one environment's files."""

    def __init__(
        self, namespace: str, record_service: RecordService, store: Store, scanner: Clamd | None = None
    ) -> None:
        self._prefix = f"{environment_files(namespace)}files"
        self._record_service = record_service
        self._store = store
        self._scanner = scanner

    async def get(self, account: str, key: str) -> Stored:
        """Return the file's record. Raises `NotFound`."""
        return await self._record_service.get(FILES, account, key)

    async def put(self, account: str, key: str, chunks: AsyncIterator[bytes], signed: str | None = None) -> Stored:
        """Store the chunks as the file's bytes; they replace earlier ones atomically when all have arrived.

        `signed` is the `upload_id` of the address in use; the upload is refused if it was renewed meanwhile.
        Raises what `chunks` raises, `NotFound`, `StorageUnavailable`, and as `RecordService.amend`: after an
        unknown outcome either bytes may be current, and the PUT may be repeated.
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
            stored, _ = await self._record_service.amend(FILES, account, key, change)
        except NotFound:
            await self._store.delete(self._object(account, key, name))
            raise
        await self._tidy(account, key, before, name)
        return stored

    async def _scan(self, account: str, key: str, name: str, size: int) -> bool:
        """Return whether a scanner passed the object; False without a scanner. Refused objects are deleted.

        Scans the stored object, so that a slow client does not occupy the scanner.
        """
        if self._scanner is None:
            return False
        try:
            chunks = await self.read(account, key, name, 0, size) if size else _nothing()
            if chunks is not None:
                await self._scanner.scan(chunks)
        except BaseException:
            with suppress(StorageUnavailable):  # otherwise the next PUT or DELETE deletes it
                await self._store.delete(self._object(account, key, name))
            raise
        return chunks is not None

    async def read(self, account: str, key: str, name: str, start: int, end: int) -> AsyncIterator[bytes] | None:
        """Read the range (at least one byte) of object `name`; None if it was replaced or deleted meanwhile."""
        return await self._store.read(self._object(account, key, name), start, end)

    async def renew(self, account: str, key: str, request: WriteRequest) -> Written:
        """Give the file a new upload address, once per idempotent `request`. Raises as `RecordService.amend`."""
        new = {"upload_id": secrets.token_hex(NAME_BYTES)}
        return await self._record_service.amend(FILES, account, key, lambda document: document | new, request)

    async def drop(self, account: str, key: str, signed: str | None = None) -> None:
        """Remove the file's bytes, if any; the record stays. Raises as `put`."""
        before: KeptBytes | None = None

        def change(document: Document) -> Document:
            nonlocal before
            _refuse_renewed(document, signed)
            before = kept_bytes(document)
            return {name: value for name, value in document.items() if name != "bytes"}

        await self._record_service.amend(FILES, account, key, change)
        await self._tidy(account, key, before, None)

    async def delete(self, account: str, key: str, fits: Fits | None) -> None:
        """Delete the record, then its bytes; repeated after a failure, it deletes the remaining bytes.

        Raises as `RecordService.delete`, and `StorageUnavailable`.
        """
        try:
            await self._record_service.delete(FILES, account, key, fits)
        except NotFound:
            if key.isalnum():  # other keys were never a file's, and could be path segments
                await self._store.sweep(self._folder(account, key))
            raise
        await self._store.sweep(self._folder(account, key))

    async def _tidy(self, account: str, key: str, before: KeptBytes | None, now: str | None) -> None:
        """Delete obsolete objects; those that the object store cannot delete now are left to the next call."""
        keep = None if now is None else self._object(account, key, now)
        try:
            if before is not None:
                await self._store.delete(self._object(account, key, before.object))
            await self._store.sweep(self._folder(account, key), keep, IDLE_S)
        except StorageUnavailable as error:
            logger.warning("obsolete bytes of file %s could not be deleted: %s", key, error)

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


WRITE = "content:write"
"""The signed address accepts PUT and DELETE, so only keys with this permission receive it."""


class UploadUrls:
    """Signs and checks upload addresses; a `Complete` for files. `public_url` is their origin, if set."""

    def __init__(self, secrets: SecretRing, views: CatalogueViews, public_url: str) -> None:
        self._secrets = secrets
        self._views = views
        self._public_url = public_url

    async def __call__(self, key: ApiKey, origin: str, files: list[dict[str, Any]]) -> None:
        """Add upload addresses to `files` for keys that may write.

        Raises `StorageUnavailable` and `ViewsUnavailable`.
        """
        for file in files if WRITE in key.permissions else ():
            stored = await self._views.get(key.account, FILES.name, file["key"])
            if stored is not None:
                signature = _signature((await self._secrets())[-1], key.account, stored)
                path = f"/files/{stored.key}/content"
                file["upload_url"] = f"{self._public_url or origin}{path}?signature={signature}"

    async def admits(self, account: str, file: Stored, signature: str) -> bool:
        """Return whether the signature is currently valid for the account's file. Raises `StorageUnavailable`."""
        for again in (False, True):
            known = [_signature(secret, account, file) for secret in await self._secrets(again)]
            if any(hmac.compare_digest(each.encode(), signature.encode()) for each in known):
                return True
        return False

    async def load(self) -> None:
        """Load the signing secrets, so that later calls need no object store. Raises `StorageUnavailable`."""
        await self._secrets.load()


def _signature(secret: bytes, account: str, file: Stored) -> str:
    signed = f"{account}\0{file.key}\0{upload_id(file.document)}"
    return urlsafe_b64encode(hmac.digest(secret, signed.encode(), sha256)).rstrip(b"=").decode()
