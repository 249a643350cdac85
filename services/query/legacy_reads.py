"""Contests and participants with their counts in the legacy API."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson
from fastapi import APIRouter

from libs.catalogue.pagination import PAGE_BYTES, ListRequest, bytes_of, read_page, size_of, token_after
from libs.catalogue.resource_table import CONTESTS, PARTICIPANTS
from libs.catalogue.schemas.base import Document
from libs.concurrency.turns import in_turns, off_loop
from libs.contracts.catalogue_events import ApiKey, Stored
from libs.legacy.contests import ContestPage, contest_read, contest_schema, is_listed, with_data
from libs.legacy.participants import SHAPE as PARTICIPANT
from libs.legacy.participants import Images, images_of, participant_read
from libs.legacy.routing import NEXT, PAGE, LegacyCall, LegacyRoutes, NoPermission
from libs.legacy.translator import JsonSchema, page
from libs.tally.errors import NotFound
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.web.door.auth import Authenticator
from services.query.counts_snapshot import Snapshot
from services.query.snapshot_cache import SnapshotCache


@dataclass(frozen=True, slots=True)
class LegacyReads:
    """The reads of one environment, whose callers `auth` authenticates.

    A brand's own key is its admin, so every key that may read a contest at all may read it in setup. Counts are
    null for keys without results:read, and while hidden for keys without results:read_hidden.
    """

    auth: Authenticator
    catalogue: CatalogueViews
    snapshots: SnapshotCache

    async def complete(self, key: ApiKey, _: str, contests: list[dict[str, Any]]) -> None:
        """Add counts to another service's contests; leaves those deleted meanwhile unchanged."""
        for shape in contests:
            with suppress(NotFound):
                snapshot = await self.snapshots.get(key.account, shape["contest_id"])
                shape.update(await self._shape(key, snapshot))

    async def complete_participants(self, key: ApiKey, _: str, participants: list[dict[str, Any]]) -> None:
        """Add counts to another service's participants; leaves those deleted meanwhile unchanged."""
        for shape in participants:
            with suppress(NotFound):
                shape.update(await self._participant(key, shape["participant_key"]))

    async def get_contest(self, call: LegacyCall) -> Document:
        """Includes its counts and approved participants."""
        return await self._shape(call.key, await self._snapshot(call.key, call.path("contest_id")))

    async def list_contests(self, call: LegacyCall) -> Document:
        """The brand's contests, 20 a page, newest first, except those with `contest_visibility` `not_listed`."""
        if call.path("brand_id") != call.account:
            raise NoPermission("brand not found or no permission")
        request = ListRequest(PAGE, call.query("next"), fits=is_listed)
        page = await read_page(self.catalogue, call.account, CONTESTS, "", request)
        found = await asyncio.gather(
            *(self.snapshots.get(call.account, stored.key) for stored in page.records), return_exceptions=True
        )
        contests: list[Document] = []
        page_bytes = 0
        for at, snapshot in enumerate(found):
            if isinstance(snapshot, NotFound):  # deleted meanwhile
                continue
            if isinstance(snapshot, BaseException):
                raise snapshot
            shape = await self._shape(call.key, snapshot)
            page_bytes += len(orjson.dumps(shape))
            if contests and page_bytes > PAGE_BYTES:
                return {"contests": contests} | _next(token_after(CONTESTS, page.records[at - 1], request.order))
            contests.append(shape)
        return {"contests": contests} | _next(page.next)

    async def list_participants(self, call: LegacyCall) -> Document:
        """The contest's participants of every status, 20 a page, newest first."""
        key, contest_id = call.key, call.path("contest_id")
        snapshot, request = await self._snapshot(key, contest_id), ListRequest(PAGE, call.query("next"))
        page = await read_page(self.catalogue, key.account, PARTICIPANTS, contest_id, request)
        return {"participants": await self._participants(key, snapshot, page.records)} | _next(page.next)

    async def get_participant(self, call: LegacyCall) -> Document:
        """Includes its counts."""
        return await self._participant(call.key, call.path("participant_key"))

    async def _participant(self, key: ApiKey, participant_key: str) -> Document:
        stored = await self.catalogue.get(key.account, "participants", participant_key)
        if stored is None:
            raise PARTICIPANTS.not_found(participant_key)
        [shape] = await self._participants(key, await self._snapshot(key, stored.parent), [stored])
        return shape

    async def _participants(self, key: ApiKey, contest: Snapshot, records: Sequence[Stored]) -> list[Document]:
        totals, images = contest.totals(key.permissions), await self._images(key, *records)
        return [
            participant_read(key.account, stored, totals, images) async for stored in in_turns(records, bytes_of)
        ]

    async def _snapshot(self, key: ApiKey, contest_id: str) -> Snapshot:
        try:
            return await self.snapshots.get(key.account, contest_id)
        except NotFound as error:
            raise CONTESTS.not_found(contest_id) from error

    async def _images(self, key: ApiKey, *records: Stored) -> Images:
        return await images_of(self.catalogue, key.account, *records)

    async def _shape(self, key: ApiKey, snapshot: Snapshot) -> dict[str, Any]:
        approved = snapshot.approved_records
        participants = await with_data(self.catalogue, key.account, snapshot.config, approved)
        page = ContestPage(
            account=snapshot.account,
            phase=snapshot.phase,
            contest=snapshot.stored,
            participants=participants,
            totals=snapshot.totals(key.permissions),
            images=await self._images(key, snapshot.stored, *approved),
        )
        return await off_loop(size_of([snapshot.stored, *participants]), contest_read, page)


def _next(token: str | None) -> dict[str, str]:
    return {} if token is None else {"next": token}


QUERY: Final = {"next": NEXT}


def contest_reads_router(base: str, reads: LegacyReads) -> APIRouter:
    """Return the reads of one environment under `base`."""
    routes = LegacyRoutes(base, reads.auth, reads.catalogue)

    def contests() -> JsonSchema:
        return page("contests", contest_schema())

    def entries() -> JsonSchema:
        return page("participants", PARTICIPANT)

    routes.add("GET", "/contests/{contest_id}", reads.get_contest, schema=contest_schema)
    routes.add("GET", "/brands/{brand_id}/contests", reads.list_contests, query=QUERY, schema=contests)
    routes.add("GET", "/contests/{contest_id}/participants", reads.list_participants, query=QUERY, schema=entries)
    routes.add("GET", "/participants/{participant_key}", reads.get_participant, schema=lambda: PARTICIPANT)
    return routes.router
