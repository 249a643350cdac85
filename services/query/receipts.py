"""Telling voters by what they were given for their vote."""

from libs.contracts.pseudonyms import is_receipt_of
from libs.storage.secret_rings import SecretRing
from libs.storage.store import Store


class Receipts:
    """Checks receipts. No vote is looked up: the receipt of one that was removed since still holds."""

    def __init__(self, store: Store) -> None:
        self._secrets = SecretRing(store, "receipts")

    async def admits(self, contest: str, receipt: str) -> bool:
        """Whether it was given for a vote in `contest`. Raises `StorageUnavailable` while nobody can tell."""
        return await self._is_of(contest, receipt) or await self._is_of(contest, receipt, again=True)

    async def _is_of(self, contest: str, receipt: str, again: bool = False) -> bool:
        return any(is_receipt_of(secret, contest, receipt) for secret in await self._secrets(again))
