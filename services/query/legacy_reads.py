"""Contests and participants with their counts, as the legacy generation reads them."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from libs.catalogue.legacy.contests import ContestPage, contest_read
from libs.catalogue.legacy.errors import NoPermission, Owners, missing_record
from libs.catalogue.legacy.participants import Images, images_of, participant_read
from libs.catalogue.legacy.records import PAGE
from libs.catalogue.pagination import ListReader, ListRequest, read_page
from libs.catalogue.resources import CONTESTS, PARTICIPANTS
from libs.contracts.catalogue import Stored
from libs.tally.errors import NotFound
from libs.web.auth import ApiKey, Authenticator
from services.query.snapshot import Snapshot
from services.query.snapshot_cache import SnapshotCache, now


class CatalogueReads(ListReader, Owners, Protocol):
    """What is needed of the catalogue's views."""

    async def get(self, account: str, resource: str, key: str) -> Stored | None: ...


@dataclass(frozen=True, slots=True)
class LegacyReads:
    """The reads of one world, in which `auth` knows the callers.

    A brand's own key is its admin, so a contest in setup is there for every key that may read it at all. Counts
    are null to a key without results:read, and while hidden to one without results:read_hidden.
    """

    auth: Authenticator
    catalogue: CatalogueReads
    snapshots: SnapshotCache

    async def contest(self, key: ApiKey, contest_id: str) -> dict[str, Any]:
        return await self._shape(key, await self._snapshot(key, contest_id))

    async def complete(self, key: ApiKey, _: str, contests: list[dict[str, Any]]) -> None:
        """Contests that another service shows, with their counts; one that is gone by now stays as it was."""
        for shape in contests:
            with suppress(NotFound):
                snapshot = await self.snapshots.get(key.account, shape["contest_id"])
                shape.update(await self._shape(key, snapshot))

    async def complete_participants(self, key: ApiKey, _: str, participants: list[dict[str, Any]]) -> None:
        """As `complete`."""
        for shape in participants:
            with suppress(NotFound):
                shape.update(await self.participant(key, shape["participant_key"]))

    async def contests(self, key: ApiKey, brand_id: str, token: str | None) -> dict[str, Any]:
        """A page of the brand's contests, newest first. One that is deleted meanwhile is left out."""
        if brand_id != key.account:
            raise NoPermission("brand not found or no permission")
        page = await read_page(self.catalogue, key.account, "contests", "", _asked(token))
        found = await asyncio.gather(
            *(self.snapshots.get(key.account, stored.key) for stored in page.records), return_exceptions=True
        )
        contests = []
        for snapshot in found:
            if isinstance(snapshot, Snapshot):
                contests.append(await self._shape(key, snapshot))
            elif not isinstance(snapshot, NotFound):
                raise snapshot
        return {"contests": contests} | _next(page.next)

    async def participants(self, key: ApiKey, contest_id: str, token: str | None) -> dict[str, Any]:
        """A page of the contest's participants of every status, newest first."""
        snapshot = await self._snapshot(key, contest_id)
        page = await read_page(self.catalogue, key.account, "participants", contest_id, _asked(token))
        totals = snapshot.totals(key.permissions, now())
        images = await self._images(key, *page.records)
        shown = [participant_read(key.account, stored, totals, images) for stored in page.records]
        return {"participants": shown} | _next(page.next)

    async def participant(self, key: ApiKey, participant_key: str) -> dict[str, Any]:
        stored = await self.catalogue.get(key.account, "participants", participant_key)
        if stored is None:
            raise await missing_record(self.catalogue, PARTICIPANTS, participant_key)
        snapshot = await self._snapshot(key, stored.parent)
        totals = snapshot.totals(key.permissions, now())
        return participant_read(key.account, stored, totals, await self._images(key, stored))

    async def _snapshot(self, key: ApiKey, contest_id: str) -> Snapshot:
        try:
            return await self.snapshots.get(key.account, contest_id)
        except NotFound as error:
            raise await missing_record(self.catalogue, CONTESTS, contest_id) from error

    async def _images(self, key: ApiKey, *records: Stored) -> Images:
        return await images_of(self.catalogue, key.account, *records)

    async def _shape(self, key: ApiKey, snapshot: Snapshot) -> dict[str, Any]:
        return contest_read(
            ContestPage(
                account=snapshot.account,
                phase=snapshot.phase,
                contest=snapshot.stored,
                participants=snapshot.approved,
                totals=snapshot.totals(key.permissions, now()),
                images=await self._images(key, snapshot.stored, *snapshot.approved),
            )
        )


def _asked(token: str | None) -> ListRequest:
    """The page from `token` on; the first without one, or with an empty one."""
    return ListRequest(PAGE, token or None)


def _next(token: str | None) -> dict[str, str]:
    return {} if token is None else {"next": token}
