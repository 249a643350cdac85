"""Contests and participants with their counts, as the legacy generation reads them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from libs.catalogue.legacy.contests import ContestPage, contest_read
from libs.catalogue.legacy.participants import participant_read
from libs.catalogue.pages import ListReader, ListRequest, read_page
from libs.contracts.catalogue import Stored
from libs.tally.errors import NotFound, TallyError
from libs.web.auth import ApiKey, Authenticator
from services.query.snapshot import Snapshot
from services.query.snapshots import Snapshots, now

PAGE: Final = 20
NO_IMAGES: Final[Mapping[str, Mapping[str, Any]]] = {}
"""Images are no resource yet: of one that is referred to, only its id is known."""


class CatalogueReads(ListReader, Protocol):
    """What is needed of the catalogue's views."""

    async def get(self, account: str, resource: str, key: str) -> Stored | None: ...

    async def find_owner(self, resource: str, key: str) -> str | None: ...


class NoPermission(TallyError):
    """It is another brand's."""

    code = "forbidden"


@dataclass(frozen=True, slots=True)
class LegacyReads:
    """The reads of one world, in which `auth` knows the callers.

    A brand's own key is its admin, so a contest in setup is there for every key that may read it at all. Counts
    are null to a key without results:read, and while hidden to one without results:read_hidden.
    """

    auth: Authenticator
    catalogue: CatalogueReads
    snapshots: Snapshots

    async def contest(self, key: ApiKey, contest_id: str) -> dict[str, Any]:
        return _contest(key, await self._snapshot(key, contest_id))

    async def contests(self, key: ApiKey, brand_id: str, token: str | None) -> dict[str, Any]:
        """A page of the brand's contests, newest first. One that is deleted meanwhile is left out."""
        if brand_id != key.account:
            raise NoPermission("brand not found or no permission")
        page = await read_page(self.catalogue, key.account, "contests", "", ListRequest(PAGE, token))
        found = await asyncio.gather(
            *(self.snapshots.get(key.account, stored.key) for stored in page.records), return_exceptions=True
        )
        contests = []
        for snapshot in found:
            if isinstance(snapshot, Snapshot):
                contests.append(_contest(key, snapshot))
            elif not isinstance(snapshot, NotFound):
                raise snapshot
        return {"contests": contests} | _next(page.next)

    async def participants(self, key: ApiKey, contest_id: str, token: str | None) -> dict[str, Any]:
        """A page of the contest's participants of every status, newest first."""
        snapshot = await self._snapshot(key, contest_id)
        request = ListRequest(PAGE, token)
        page = await read_page(self.catalogue, key.account, "participants", contest_id, request)
        totals = snapshot.totals(key.permissions, now())
        shown = [participant_read(key.account, stored, totals, NO_IMAGES) for stored in page.records]
        return {"participants": shown} | _next(page.next)

    async def participant(self, key: ApiKey, participant_key: str) -> dict[str, Any]:
        stored = await self.catalogue.get(key.account, "participants", participant_key)
        if stored is None:
            raise await self._refusal("participants", participant_key, "participant")
        snapshot = await self._snapshot(key, stored.parent)
        return participant_read(key.account, stored, snapshot.totals(key.permissions, now()), NO_IMAGES)

    async def _snapshot(self, key: ApiKey, contest_id: str) -> Snapshot:
        try:
            return await self.snapshots.get(key.account, contest_id)
        except NotFound as error:
            raise await self._refusal("contests", contest_id, "contest") from error

    async def _refusal(self, resource: str, key: str, name: str) -> TallyError:
        """In the words of the specification, which tells another brand's record from none."""
        if await self.catalogue.find_owner(resource, key) is None:
            return NotFound(f"{name} not found")
        return NoPermission(f"no permission to {name}")


def _contest(key: ApiKey, snapshot: Snapshot) -> dict[str, Any]:
    return contest_read(
        ContestPage(
            account=snapshot.account,
            phase=snapshot.phase,
            contest=snapshot.stored,
            participants=snapshot.approved,
            totals=snapshot.totals(key.permissions, now()),
            images=NO_IMAGES,
        )
    )


def _next(token: str | None) -> dict[str, str]:
    return {} if token is None else {"next": token}
