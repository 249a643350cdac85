"""Signed addresses at which files' bytes are handled without a key."""

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

from libs.catalogue.resources import FILES
from libs.catalogue.schemas.media import upload_id
from libs.contracts.catalogue import Stored
from libs.storage.secrets import server_secret
from libs.storage.store import Store
from libs.views.catalogue import CatalogueViews
from libs.web.auth import ApiKey

WRITE = "content:write"
"""An address takes PUT and DELETE, so only who may do that with the key is given it."""


class UploadUrls:
    """Signs and checks the addresses; a `Complete` of the files. With a `public_url`, that is their origin."""

    def __init__(self, store: Store, views: CatalogueViews, public_url: str) -> None:
        self._store = store
        self._views = views
        self._public_url = public_url
        self._secret = b""

    async def __call__(self, key: ApiKey, origin: str, files: list[dict[str, Any]]) -> None:
        """Adds the addresses, for keys that may write. Raises `StorageUnavailable` and `ViewsUnavailable`."""
        for file in files if WRITE in key.permissions else ():
            stored = await self._views.get(key.account, FILES.name, file["key"])
            if stored is not None:
                signature = await self._sign(key.account, stored)
                path = f"/files/{stored.key}/content"
                file["upload_url"] = f"{self._public_url or origin}{path}?signature={signature}"

    async def admits(self, account: str, file: Stored, signature: str) -> bool:
        """Whether the signature is the one of the account's file now. Raises `StorageUnavailable`."""
        return hmac.compare_digest((await self._sign(account, file)).encode(), signature.encode())

    async def load(self) -> None:
        """So that later calls need no object store. Raises `StorageUnavailable`."""
        self._secret = self._secret or await server_secret(self._store, "upload addresses")

    async def _sign(self, account: str, file: Stored) -> str:
        await self.load()
        signed = f"{account}\0{file.key}\0{upload_id(file.document)}"
        digest = hmac.digest(self._secret, signed.encode(), sha256)
        return urlsafe_b64encode(digest).rstrip(b"=").decode()
