"""Adds counts to the catalogue's participants, and lists them by counts."""

from collections.abc import Sequence
from typing import Any

from libs.catalogue.pagination import Ranked
from libs.tally.counts import VoteSums
from libs.tally.errors import NotFound
from libs.web.auth import ApiKey, require
from services.query.errors import ResultsHidden
from services.query.snapshot_cache import SnapshotCache, now


class ParticipantCounts:
    """Enricher of participants: sets `vote_count` and `rater_count` for keys that may see them."""

    def __init__(self, snapshots: SnapshotCache) -> None:
        self._snapshots = snapshots

    async def __call__(self, key: ApiKey, _: str, participants: list[dict[str, Any]]) -> None:
        """Enrich participants of one contest; skipped if it was deleted meanwhile. Raises `ViewsUnavailable`."""
        if not participants or "results:read" not in key.permissions:
            return
        try:
            snapshot = await self._snapshots.get(key.account, participants[0]["contest_key"])
        except NotFound:
            return
        totals = snapshot.totals(key.permissions, now())
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
        if snapshot.totals(key.permissions, now()) is None:
            raise ResultsHidden(snapshot.visibility)
        return snapshot.ranked
