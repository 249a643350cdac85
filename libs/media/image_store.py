"""The pictures of one environment in the object store, with renditions that are created on first use.

`<files of the environment>/images/<account>/<image>/<object>/` has `original` and, once created, the renditions by
name. They never change: a new picture of the same image gets a new object.
"""

import asyncio
import secrets
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import IO, Any, Final
from weakref import WeakValueDictionary

from libs.catalogue.schemas.media import SIZES
from libs.media.decoder_pool import Decoders
from libs.media.picture_encoding import FORMATS, NotAPicture
from libs.storage.object_store import Store, environment_files
from libs.tally.errors import Overloaded

ORIGINAL: Final = "original"


@dataclass(frozen=True, slots=True)
class StoredPicture:
    """A record's data of its picture; `object` is a part of its name in the store, `size` is in bytes."""

    object: str
    format: str
    width: int
    height: int
    size: int
    sha256: str

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "StoredPicture":
        return cls(**document["picture"])

    def members(self) -> dict[str, Any]:
        return asdict(self)


class ImageStore:
    """Stores pictures and their renditions. `decoders` limits the number of pictures in memory."""

    def __init__(self, store: Store, namespace: str, decoders: Decoders) -> None:
        self._store = store
        self._prefix = f"{environment_files(namespace)}images/"
        self._decoders = decoders
        self._making: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def add(
        self, account: str, image: str, file: IO[bytes], formats: Collection[str] = tuple(FORMATS)
    ) -> StoredPicture:
        """Store the picture in `file`. Raises `NotAPicture`, `Overloaded` and `StorageUnavailable`."""
        picture = await self._decoders.take_in(account, await asyncio.to_thread(file.read), formats)
        kept = StoredPicture(
            object=secrets.token_hex(8),
            format=picture.format,
            width=picture.width,
            height=picture.height,
            size=len(picture.data),
            sha256=picture.sha256,
        )
        await self._store.replace(f"{self._folder(account, image)}/{kept.object}/{ORIGINAL}", picture.data)
        return kept

    async def show(self, account: str, image: str, kept: StoredPicture, size: str) -> bytes | None:
        """Return a rendition, None if the picture was deleted. Raises `Overloaded` and `StorageUnavailable`."""
        longest = SIZES[size]
        folder = f"{self._folder(account, image)}/{kept.object}"
        original, name = f"{folder}/{ORIGINAL}", f"{folder}/{size}"
        if max(kept.width, kept.height) <= longest:
            return await self._store.get(original)
        async with self._making.setdefault(name, asyncio.Lock()):
            found = await self._store.get(name)
            if found is None and (whole := await self._store.get(original)) is not None:
                try:
                    found = await self._decoders.shrink(whole, kept.format, longest)
                except NotAPicture as error:  # it was valid when stored: the machine is overloaded
                    raise Overloaded("The picture cannot be resized now.", retry_after_s=5, cause=error) from None
                await self._store.replace(name, found)
            return found

    async def remove(self, account: str, image: str, kept: StoredPicture | None = None) -> None:
        """Delete all objects of an image, or only the picture `kept`. Raises `StorageUnavailable`."""
        folder = self._folder(account, image)
        for name in await self._store.names(folder if kept is None else f"{folder}/{kept.object}"):
            await self._store.delete(name)

    def _folder(self, account: str, image: str) -> str:
        return f"{self._prefix}{account}/{image}"
