"""Counts in the records of participants, and participants by votes."""

from collections.abc import Sequence
from typing import Any

from libs.catalogue.contests.closing_record import closing_of
from libs.catalogue.pagination import Ranked
from libs.contracts.catalogue_events import ApiKey
from libs.tally.counts import VoteSums
from libs.tally.errors import NotFound
from libs.web.door.auth import require
from services.query.snapshot_cache import SnapshotCache


class ParticipantCounts:
    """Enricher of participants: sets `vote_count` and `rater_count` for keys that may see them, and says whether a
    status waits for the contest's reopening."""

    def __init__(self, snapshots: SnapshotCache) -> None:
        self._snapshots = snapshots

    async def __call__(self, key: ApiKey, _: str, participants: list[dict[str, Any]]) -> None:
        """Enrich participants of one contest; skipped if it was deleted meanwhile. Raises `ViewsUnavailable`."""
        if not participants:
            return
        try:
            snapshot = await self._snapshots.get(key.account, participants[0]["contest_key"])
        except NotFound:
            return
        closing = closing_of(snapshot.stored.document)
        approved = None if closing is None else closing.approved
        for participant in participants:
            is_approved = participant["status"] == "approved"
            waits = approved is not None and is_approved != (participant["key"] in approved)
            participant["waits_for_reopening"] = waits
        totals = snapshot.totals(key.permissions) if "results:read" in key.permissions else None
        if totals is None:
            return
        for participant in participants:
            figures = totals.get(participant["key"], VoteSums())
            participant |= {"vote_count": figures.count, "rater_count": figures.unique}

    async def by_votes(self, key: ApiKey, contest: str) -> Sequence[Ranked]:
        """Return all participants of a contest by votes.

        Raises `Forbidden`, `NotFound`, `ResultsHidden` and `ViewsUnavailable`.
        """
        require(key, "results:read")
        snapshot = await self._snapshots.get(key.account, contest)
        snapshot.check_visible(key.permissions)
        return snapshot.ranked
