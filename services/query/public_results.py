"""`GET /public/contests/<key>/results`: a contest's public results, without a key."""

from typing import Any, Final
from urllib.parse import parse_qs

from libs.catalogue.contests.contest_mapper import listed
from libs.catalogue.schemas.contest import Participant
from libs.contracts.catalogue_events import Stored
from libs.contracts.pseudonyms import is_receipt_of
from libs.results.contest_results import places, rank_keys
from libs.storage.secret_rings import SecretRing
from libs.tally.contest import MILLION, Contest
from libs.tally.errors import NotFound
from libs.tally.time_conversion import timestamp
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.web.door.auth import header
from libs.web.door.query_parameters import refuse_unknown_parameters
from libs.web.server.hot_requests import HotRequest, Reply
from services.query.count_answers import last_update
from services.query.counts_snapshot import Snapshot
from services.query.encoded_response import EncodedResponse, encoded
from services.query.result_details import corrections_of
from services.query.snapshot_cache import SnapshotCache, now


async def is_genuine(receipts: SecretRing, contest: str, receipt: str) -> bool:
    """Return whether the receipt is for a vote in `contest`, even for a removed one: no votes are read.

    Raises `StorageUnavailable`.
    """
    for again in (False, True):
        if any(is_receipt_of(secret, contest, receipt) for secret in await receipts(again)):
            return True
    return False


def shown(snapshot: Snapshot) -> EncodedResponse:
    return encoded(record(snapshot, hidden=False), [snapshot.visibility], [])


def hidden(snapshot: Snapshot) -> EncodedResponse:
    return encoded(record(snapshot, hidden=True), [snapshot.visibility], [])


def record(snapshot: Snapshot, hidden: bool) -> dict[str, Any]:
    """Build the record. Ranks follow `RankKey` in any order, ties share theirs; without votes every share is 0.

    While `hidden` nothing in it depends on votes: `updated` is then the last change to the contest's records.
    """
    totals, kind = snapshot.results.totals, snapshot.contest.contest_type
    order = None if hidden else rank_keys(kind, snapshot.counts, snapshot.results)
    rules = snapshot.record.contest_config
    ranks = places(order or {})

    def entry(stored: Stored) -> dict[str, Any]:
        participant = Participant.model_validate(stored.document)
        key = None if order is None else order[stored.key]
        average = None if key is None or key.average < 0 else key.average / MILLION
        return {
            "participant_key": stored.key,
            "title": participant.title,
            "image": {"key": participant.image_key} if participant.image_key else None,
            "rank": ranks.get(stored.key),
            "count": None if key is None else key.votes,
            "share": None if key is None else key.votes / max(1, totals[""].count),
            **({"average": average} if kind == "rating" else {}),
        }

    entries = listed(snapshot.approved, rules, order) if snapshot.names_participants else []
    return {
        "contest_key": snapshot.contest.key,
        "phase": snapshot.phase,
        "final": snapshot.results.final,
        "participants": [entry(stored) for stored in entries],
        "corrections": corrections_of(snapshot, without_key=True),
        "count": None if hidden else totals[""].count,
        "updated": timestamp(snapshot.updated) if hidden else last_update(snapshot),
    }


MOST_OWNERS: Final = 10_000
SHARED_S: Final = 2
"""Longest time that shared caches may serve a response."""


class PublicResults:
    """Serves the results of published contests of production."""

    def __init__(self, owners: CatalogueViews, snapshots: SnapshotCache, receipts: SecretRing) -> None:
        self._owners = owners
        self._snapshots = snapshots
        self._receipts = receipts
        self._known: dict[str, str] = {}

    async def __call__(self, request: HotRequest) -> Reply:
        scope = request.scope
        refuse_unknown_parameters(scope)
        contest, receipt = scope["path_params"]["contest_key"], receipt_of(scope["query_string"])
        snapshot = (await self.published(contest)).at(moment := now())
        has_voted = receipt is not None and snapshot.hides and await self.admits(contest, receipt)
        answer = public_answer(snapshot, snapshot.hides_from_public(has_voted))
        shared_s = shared_for(snapshot.contest, moment)
        # caches would take an uncacheable 304 for a revalidation of the stored response
        condition = header(scope["headers"], b"if-none-match") if shared_s else None
        caching = b"private, no-store" if receipt is not None else for_all(shared_s)
        return answer.reply(condition, [(b"cache-control", caching)])

    async def published(self, contest: str) -> Snapshot:
        """Return the contest as of now. Raises `NotFound`, also for one in setup."""
        snapshot = (await self._snapshot(contest)).at(now())
        if not await self._snapshots.is_published(snapshot.contest):
            raise _not_found(contest)
        return snapshot

    async def admits(self, contest: str, receipt: str) -> bool:
        """Return whether the receipt is for a vote in the contest. Raises `StorageUnavailable`."""
        return await is_genuine(self._receipts, contest, receipt)

    async def _snapshot(self, contest: str) -> Snapshot:
        """Return the contest, whose account is cached until it is not found there. Raises `NotFound`."""
        known = self._known.get(contest)
        if known is not None:
            try:
                return await self._snapshots.get(known, contest)
            except NotFound:
                self._known.pop(contest, None)
        owner = await self._owners.find_owner("contests", contest)
        if owner is None:
            raise _not_found(contest)
        snapshot = await self._snapshots.get(owner, contest)
        if len(self._known) >= MOST_OWNERS:
            del self._known[next(iter(self._known))]
        self._known[contest] = owner
        return snapshot


def public_answer(snapshot: Snapshot, hides: bool) -> EncodedResponse:
    return snapshot.answer(hidden if hides else shown)


def receipt_of(query: bytes) -> str | None:
    """Parse the parameter `receipt`."""
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True).get("receipt")
    return given[-1] if given else None


def _not_found(contest: str) -> NotFound:
    return NotFound(f"Published contest {contest} not found.")


def shared_for(contest: Contest, now: int) -> int:
    """Return the seconds that shared caches may serve a response, never past the contest's next change of phase.

    Caches count whole seconds and may serve it for up to one longer, so one is subtracted.
    """
    ahead = [at - now for at in (contest.start, contest.end) if at is not None and at > now]
    return max(0, min([SHARED_S, *(us // MILLION - 1 for us in ahead)]))


def for_all(shared_s: int) -> bytes:
    """Return the `Cache-Control`. Browsers cache for a second less: a shared cache's response may be up to a
    second older than its `Age`.
    """
    return b"public, max-age=%d, s-maxage=%d" % (max(0, shared_s - 1), shared_s)
