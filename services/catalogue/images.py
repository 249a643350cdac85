"""Images: a picture safely kept, then the record that says so.

What dies between the two leaves a picture that no record names and nobody can ask for.
"""

import logging
import secrets
import tempfile
from typing import IO, Final

from libs.catalogue.drafts import KEY_BYTES
from libs.catalogue.engine import Engine, Fits, Written
from libs.catalogue.resources import IMAGES
from libs.catalogue.table import Document
from libs.catalogue.writing import Request
from libs.contracts.problems import Problem, ValidationFailed
from libs.media.fetching import Fetcher, NotFetched
from libs.media.gallery import Gallery
from libs.media.pictures import NotAPicture
from libs.storage.store import StorageUnavailable
from libs.tally.errors import TallyError, ViewsUnavailable

IN_MEMORY_BYTES: Final = 1 << 20
"""What is fetched beyond that waits in a temporary file."""

logger = logging.getLogger(__name__)


class Images:
    """Of one world."""

    def __init__(self, engine: Engine, gallery: Gallery, fetcher: Fetcher) -> None:
        self._engine = engine
        self._gallery = gallery
        self._fetcher = fetcher

    async def upload(self, account: str, file: IO[bytes], body: Document, request: Request) -> Written:
        """The picture in `file` as a new image. Raises as `Engine.create`, and `StorageUnavailable`."""
        earlier = await self._engine.earlier(IMAGES, account, request)
        return earlier or await self._add(account, file, body, request, "/file")

    async def fetch(self, account: str, url: str, body: Document, request: Request) -> Written:
        """The same of the picture at `url`, which is fetched once for an idempotency key."""
        if (earlier := await self._engine.earlier(IMAGES, account, request)) is not None:
            return earlier
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as file:
            try:
                await self._fetcher.fetch(url, file)
            except NotFetched as error:
                raise ValidationFailed([Problem("/url", str(error))]) from None
            file.seek(0)
            return await self._add(account, file, body, request, "/url")

    async def delete(self, account: str, key: str, fits: Fits | None) -> None:
        """Raises as `Engine.delete`."""
        await self._engine.delete(IMAGES, account, key, fits)
        await self._forget(account, key)

    async def _add(self, account: str, file: IO[bytes], body: Document, request: Request, where: str) -> Written:
        key = secrets.token_hex(KEY_BYTES)
        try:
            kept = await self._gallery.add(account, key, file)
        except NotAPicture as error:
            raise ValidationFailed([Problem(where, str(error))]) from None
        owned = {"picture": kept.members()}
        try:
            written = await self._engine.create(IMAGES, account, body, request, key=key, owned=owned)
        except ViewsUnavailable:
            raise  # the record may yet come
        except TallyError:
            await self._forget(account, key)
            raise
        if written.replayed:
            await self._forget(account, key)
        return written

    async def _forget(self, account: str, key: str) -> None:
        """No record names it any more, or ever did: what cannot be removed now is only left over."""
        try:
            await self._gallery.remove(account, key)
        except StorageUnavailable as error:
            logger.warning("the picture of image %s is left over: %s", key, error)
