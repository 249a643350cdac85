"""Recognizes voters by the receipts of their votes."""

from libs.contracts.pseudonyms import is_receipt_of
from libs.storage.object_store import Store
from libs.storage.secret_rings import SecretRing


class Receipts:
    """Verifies receipts without reading votes: the receipt of a removed vote stays valid."""

    def __init__(self, store: Store) -> None:
        self._secrets = SecretRing(store, "receipts")

    async def admits(self, contest: str, receipt: str) -> bool:
        """Return whether the receipt is for a vote in `contest`. Raises `StorageUnavailable`."""
        return await self._is_of(contest, receipt) or await self._is_of(contest, receipt, again=True)

    async def _is_of(self, contest: str, receipt: str, again: bool = False) -> bool:
        return any(is_receipt_of(secret, contest, receipt) for secret in await self._secrets(again))
