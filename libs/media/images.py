"""Images: stores the picture first, then writes the record that names it.

A crash between the two leaves a picture that no record names and no client can request.
"""

import asyncio
import logging
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import IO, Any, Final

from libs.catalogue.commands import WriteRequest
from libs.catalogue.nested_items import KEY_BYTES
from libs.catalogue.records import RecordService, Written
from libs.catalogue.resource_definition import Fits
from libs.catalogue.resource_table import IMAGES
from libs.catalogue.schemas.base import Document
from libs.contracts.catalogue_events import ApiKey, Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.media.allowed_addresses import NotFetched
from libs.media.clamd import CHUNK_BYTES, Clamd
from libs.media.image_store import ImageStore, StoredPicture
from libs.media.picture_encoding import FORMATS, NotAPicture
from libs.media.url_fetcher import FetcherOnDemand
from libs.storage.object_store import StorageUnavailable
from libs.tally.errors import TallyError, ViewsUnavailable

IN_MEMORY_BYTES: Final = 1 << 20
"""Larger fetched pictures are spooled to a temporary file."""

ALL: Final = tuple(FORMATS)
ICONS: Final = ("png",)


logger = logging.getLogger(__name__)


class Images:
    """Creates, changes and deletes the images of one environment."""

    def __init__(
        self,
        record_service: RecordService,
        image_store: ImageStore,
        fetcher: FetcherOnDemand,
        scanner: Clamd | None = None,
    ) -> None:
        """With a `scanner`, pictures that it does not pass are refused."""
        self._record_service = record_service
        self._image_store = image_store
        self._fetcher = fetcher
        self._scanner = scanner

    async def upload(
        self,
        account: str,
        file: IO[bytes],
        body: Document,
        request: WriteRequest,
        where: str = "/file",
        formats: Collection[str] = ALL,
    ) -> Written:
        """Create an image from a picture, at the JSON pointer `where` in the request.

        Raises as `RecordService.create`, and `StorageUnavailable`.
        """
        return await self._create(account, nullcontext(file), body, request, where, formats)

    async def fetch(
        self, account: str, url: str, body: Document, request: WriteRequest, formats: Collection[str] = ALL
    ) -> Written:
        """Create an image from the picture at `url`, fetched once per idempotency key. Raises as `upload`."""
        return await self._create(account, self._fetched(url), body, request, "/url", formats)

    async def replace(
        self, account: str, key: str, url: str, change: Callable[[Document], Document], formats: Collection[str]
    ) -> Stored:
        """Change an image and replace its picture by the one at `url`.

        Raises as `RecordService.change`, and as `upload`.
        """
        before = (await self._record_service.get(IMAGES, account, key)).document
        IMAGES.validated(change(before))
        async with self._fetched(url) as file:
            kept = await self._kept(account, key, file, before, "/url", formats)

        def changing(document: Document) -> Document:
            nonlocal before
            before = document
            return change(document)

        try:
            owned = {"picture": kept.members()}
            changed = await self._record_service.change(IMAGES, account, key, changing, owned=owned)
        except ViewsUnavailable:
            raise  # outcome unknown: the record may name the picture
        except TallyError:
            await self._forget(account, key, kept)
            raise
        await self._forget(account, key, StoredPicture.of(before))
        return changed

    async def delete(self, account: str, key: str, fits: Fits | None) -> None:
        """Delete the image and its picture. Raises as `RecordService.delete`."""
        await self._record_service.delete(IMAGES, account, key, fits)
        await self._forget(account, key)

    @asynccontextmanager
    async def _fetched(self, url: str) -> AsyncIterator[IO[bytes]]:
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as file:
            try:
                await self._fetcher.fetch(url, file)
            except NotFetched as error:
                raise ValidationFailed([Problem("/url", str(error))]) from None
            file.seek(0)
            yield file

    async def _kept(
        self, account: str, key: str, file: IO[bytes], body: Document, where: str, formats: Collection[str]
    ) -> StoredPicture:
        """Scan, decode and store the picture of an image with the members `body`."""
        if self._scanner is not None:
            await self._scanner.scan(_chunks(file), where)
            file.seek(0)
        accepted = ICONS if body.get("is_icon") is True else formats
        try:
            return await self._image_store.add(account, key, file, accepted)
        except NotAPicture as error:
            raise ValidationFailed([Problem(where, str(error))]) from None

    async def _create(
        self,
        account: str,
        source: AbstractAsyncContextManager[IO[bytes]],
        body: Document,
        request: WriteRequest,
        where: str,
        formats: Collection[str],
    ) -> Written:
        if (earlier := await self._record_service.earlier(IMAGES, account, request)) is not None:
            return earlier
        IMAGES.validated(body)
        key = secrets.token_hex(KEY_BYTES)
        async with source as file:
            kept = await self._kept(account, key, file, body, where, formats)
        owned = {"picture": kept.members()}
        try:
            written = await self._record_service.create(IMAGES, account, body, request, key=key, owned=owned)
        except ViewsUnavailable:
            raise  # outcome unknown: the record may still be written
        except TallyError:
            await self._forget(account, key)
            raise
        if written.replayed:
            await self._forget(account, key)
        return written

    async def _forget(self, account: str, key: str, kept: StoredPicture | None = None) -> None:
        """Remove pictures that no record names; those that cannot be removed now are left over."""
        try:
            await self._image_store.remove(account, key, kept)
        except StorageUnavailable as error:
            logger.warning("the picture of image %s is left over: %s", key, error)


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
        yield chunk


class ImageUrls:
    """Completes the addresses of images; a `Complete`. `public_url` is their origin, if set."""

    def __init__(self, public_url: str) -> None:
        self._public_url = public_url

    async def __call__(self, _: ApiKey, origin: str, images: list[dict[str, Any]]) -> None:
        before = self._public_url or origin
        for image in images:
            image["url"] = before + image["url"]
            image["sizes"] = {size: before + url for size, url in image["sizes"].items()}
