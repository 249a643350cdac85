"""Bound of a purchase's votes by the package that was bought."""

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.purchases.requests import PurchaseForm

SHOPS: Final = "shops", "master_shops"
PAGE: Final = 100

logger = logging.getLogger(__name__)


class Records(Protocol):
    """Reads records from the catalogue's views."""

    async def get(self, account: str, resource: str, key: str) -> Stored | None: ...

    async def page(self, account: str, resource: str, *, after: int | str = "", limit: int) -> list[Stored]: ...


@dataclass(frozen=True, slots=True)
class PackageBounds:
    """Compares purchases with the account's packages; unknown packages bound nothing.

    With `refuses` False a purchase of more votes than its package has is logged and recorded.
    """

    records: Records
    refuses: bool = True

    async def check(self, account: str, form: PurchaseForm) -> None:
        """Raise `ValidationFailed` if the purchase casts more votes than its package has."""
        if form.vote is None or form.package_key is None:
            return
        bound = await self._vote_count(account, form.shop_key, form.package_key)
        if bound is None or form.vote.count <= bound:
            return
        if self.refuses:
            raise ValidationFailed([Problem("/vote/count", f"package {form.package_key} has {bound} votes")])
        logger.warning(
            "a purchase of account %s casts %d votes of a package of %d", account, form.vote.count, bound
        )

    async def _vote_count(self, account: str, shop_key: str | None, package_key: str) -> int | None:
        async for shop in self._shops(account, shop_key):
            for package in shop.document.get("packages", ()):
                if package["key"] == package_key:
                    count: int | None = package.get("vote_count")
                    return count
        return None

    async def _shops(self, account: str, key: str | None) -> AsyncIterator[Stored]:
        """Yield the named shop, or all of the account."""
        for resource in SHOPS:
            if key is not None:
                shop = await self.records.get(account, resource, key)
                if shop is not None:
                    yield shop
                continue
            after: int | str = ""
            while page := await self.records.page(account, resource, after=after, limit=PAGE):
                for shop in page:
                    yield shop
                after = page[-1].created
