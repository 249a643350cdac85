"""`GET /contests/<key>/reopen`: the result before and after a reopening, participant by participant."""

from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import orjson
from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from libs.catalogue.contests.closing_record import closing_of, status_of, title_of
from libs.catalogue.contests.contest_mapper import contest_of, sources_of
from libs.catalogue.errors import NotClosed
from libs.contracts.catalogue_events import ApiKey
from libs.results.contest_results import Results, places, rank_keys, results_of
from libs.web.documents.openapi import problems
from libs.web.door.auth import Authenticator
from libs.web.door.typed_routes import Permitted, TypedRoute
from services.query.counts_snapshot import Snapshot
from services.query.snapshot_cache import SnapshotCache


class Standing(BaseModel):
    """A participant in a result."""

    status: str | None = Field(description="Status; null for a participant that was created after the end.")
    count: int | None = Field(description="Votes; null unless approved.")
    rank: int | None = Field(description="Rank from 1; null unless approved.")


class ReopenedParticipant(BaseModel):
    """A participant before and after the reopening."""

    participant_key: str = Field(description="Key of the participant.")
    title: str | None = Field(description="Display name.")
    before: Standing = Field(description="In the final result.")
    after: Standing = Field(description="With the present statuses and sources.")


class ReopeningPreview(BaseModel):
    """The effect of a reopening. Removed and voided votes that wait for it are not taken out here."""

    contest_key: str = Field(description="Key of the contest.")
    participants: list[ReopenedParticipant] = Field(description="All participants, by running number.")


class _Result(NamedTuple):
    results: Results
    ranks: dict[str, int]

    def standing(self, key: str, status: str | None) -> dict[str, Any]:
        is_in = key in self.results.participants
        count = self.results.totals[key].count if is_in else None
        return {"status": status, "count": count, "rank": self.ranks[key] if is_in else None}


def preview(snapshot: Snapshot) -> dict[str, Any]:
    """Build the preview of a closed contest. Raises `NotClosed`."""
    closing = closing_of(snapshot.stored.document)
    if closing is None:
        raise NotClosed("The contest is not closed: change its end instead.")
    document = {name: value for name, value in snapshot.stored.document.items() if name != "closing"}
    stored = replace(snapshot.stored, record=orjson.dumps(document).decode())
    config = replace(snapshot.config, contest=stored)
    contest = contest_of(snapshot.account, config)
    assert contest is not None
    results = results_of(contest, sources_of(config), snapshot.counts)
    before, after = (
        _Result(found, places(rank_keys(contest.contest_type, snapshot.counts, found)))
        for found in (snapshot.results, results)
    )
    statuses = {each.key: each.status for each in closing.participants}
    return {
        "contest_key": contest.key,
        "participants": [
            {
                "participant_key": each.key,
                "title": title_of(each) or None,
                "before": before.standing(each.key, statuses.get(each.key)),
                "after": after.standing(each.key, status_of(each)),
            }
            for each in snapshot.config.participants
        ],
    }


def reopening_router(auth: Authenticator, snapshots: SnapshotCache) -> APIRouter:
    """Build the route of the preview."""
    router = APIRouter(tags=["contests"], route_class=TypedRoute)
    Reader = Annotated[ApiKey, Depends(Permitted(auth, "results:read"))]

    @router.get(
        "/contests/{contest_key}/reopen",
        response_model=ReopeningPreview,
        responses=problems("results_hidden", "not_found", "status_transition"),
    )
    async def preview_reopening(caller: Reader, contest_key: str) -> dict[str, Any]:
        """Preview a reopening: the result before and after it, as it is without further votes.

        While the counts are hidden, `results:read_hidden` is also needed.
        """
        snapshot = await snapshots.get(caller.account, contest_key)
        snapshot.check_visible(caller.permissions)
        return preview(snapshot)

    return router
