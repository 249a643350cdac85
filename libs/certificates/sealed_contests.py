"""Lists the sealed contests."""

import asyncio
from typing import NamedTuple

from libs.catalogue.contests.closing_record import Seal, seal_of
from libs.certificates.store import FOLDER
from libs.storage.object_store import Store
from libs.views.catalogue_views import CatalogueViews


class Sealed(NamedTuple):
    contest: str
    title: str
    account: str
    seal: Seal


async def sealed_contests(store: Store, views: CatalogueViews) -> list[Sealed]:
    """Return an environment's currently sealed contests by key, out of those that have a stored certificate.

    Raises `StorageUnavailable` and `ViewsUnavailable`.
    """
    keys = sorted({name.split("/")[1] for name in await store.names(FOLDER)})
    found = await asyncio.gather(*(_sealed(views, key) for key in keys))
    return [one for one in found if one is not None]


async def _sealed(views: CatalogueViews, contest: str) -> Sealed | None:
    account = await views.find_owner("contests", contest)
    stored = None if account is None else await views.get(account, "contests", contest)
    seal = None if stored is None else seal_of(stored.document)
    if account is None or stored is None or seal is None:
        return None
    return Sealed(contest, stored.document.get("title") or "", account, seal)
