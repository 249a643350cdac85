"""Where the bytes of a file are handled: at an address that is its own secret."""

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

from libs.storage.secrets import server_secret
from libs.storage.store import Store
from libs.web.auth import ApiKey


class UploadUrls:
    """Signs and knows the addresses; a `Complete` of the files. With a `public_url`, that is their origin."""

    def __init__(self, store: Store, public_url: str) -> None:
        self._store = store
        self._public_url = public_url
        self._secret = b""

    async def __call__(self, key: ApiKey, origin: str, files: list[dict[str, Any]]) -> None:
        """Raises `StorageUnavailable`."""
        for file in files:
            signature = await self._sign(key.account, file["key"])
            path = f"/files/{file['key']}/content"
            file["upload_url"] = f"{self._public_url or origin}{path}?signature={signature}"

    async def admits(self, account: str, key: str, signature: str) -> bool:
        """Whether the signature is that of the account's file. Raises `StorageUnavailable`."""
        return hmac.compare_digest((await self._sign(account, key)).encode(), signature.encode())

    async def load(self) -> None:
        """So that later calls need no object store. Raises `StorageUnavailable`."""
        self._secret = self._secret or await server_secret(self._store, "upload addresses")

    async def _sign(self, account: str, key: str) -> str:
        await self.load()
        digest = hmac.digest(self._secret, f"{account}\0{key}".encode(), sha256)
        return urlsafe_b64encode(digest).rstrip(b"=").decode()
