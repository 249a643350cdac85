"""Signed addresses that accept files' bytes without an API key."""

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

from libs.catalogue.resource_table import FILES
from libs.catalogue.schemas.media import upload_id
from libs.contracts.catalogue_events import Stored
from libs.storage.object_store import Store
from libs.storage.secret_rings import SecretRing
from libs.views.catalogue_views import CatalogueViews
from libs.web.auth import ApiKey

WRITE = "content:write"
"""The signed address accepts PUT and DELETE, so only keys with this permission receive it."""


class UploadUrls:
    """Signs and checks upload addresses; a `Complete` for files. `public_url` is their origin, if set."""

    def __init__(self, store: Store, views: CatalogueViews, public_url: str) -> None:
        self._secrets = SecretRing(store, "upload addresses")
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
