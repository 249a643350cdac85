"""Telling voters by what they were given for their vote."""

from libs.contracts.pseudonyms import is_receipt_of
from libs.storage.secrets import server_secret
from libs.storage.store import Store


class Receipts:
    """Checks receipts. No vote is looked up: the receipt of one that was removed since still holds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._key: bytes | None = None

    async def admits(self, contest: str, receipt: str) -> bool:
        """Whether it was given for a vote in `contest`. Raises `StorageUnavailable` while nobody can tell."""
        if self._key is None:
            self._key = await server_secret(self._store, "receipts")
        return is_receipt_of(self._key, contest, receipt)
