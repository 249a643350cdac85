"""`GET /contests/<key>/vote_updates`: a contest's counts, mostly without ASGI."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

from libs.catalogue.contests.closing_record import closing_of
from libs.catalogue.pagination import Ranked
from libs.contracts.catalogue_events import ApiKey
from libs.contracts.position_token import BROKEN, PositionTokens, merge_positions
from libs.contracts.topics import VotesLog
from libs.contracts.validation import Problem, ValidationFailed
from libs.results.contest_results import updated, vote_count
from libs.tally.counts import VoteSums
from libs.tally.errors import NotFound
from libs.tally.time_conversion import microseconds, parse_timestamp
from libs.views.votes.timeline import MINUTE_MS
from libs.web.door.auth import Authenticator, Headers, header, require
from libs.web.door.query_parameters import cached_by_query
from libs.web.server.hot_requests import HotRequest, Reply
from services.query.contest_sums import NO_POSITIONS
from services.query.counts_snapshot import Render, Snapshot
from services.query.encoded_response import EncodedResponse, encoded
from services.query.historical_counts import PastCounts
from services.query.result_details import with_details, with_held
from services.query.snapshot_cache import SnapshotCache, covers


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


FINALITY: Final = {False: "provisional", True: "final"}


def count_answer(
    snapshot: Snapshot, *, sources: bool = False, held: bool = False, details: bool = False
) -> EncodedResponse:
    """Build the response: by source, also with `held` external counts, and with details."""
    shown = record(snapshot, sources)
    if held:
        shown = with_held(shown, snapshot)
    return answer_of(snapshot, with_details(shown, snapshot) if details else shown)


FLAGS: Final = ((False, False), (True, False), (False, True), (True, True))
ANSWERS: Final[dict[tuple[bool, bool], Render]] = {
    (sources, details): partial(count_answer, sources=sources, held=sources and details, details=details)
    for sources, details in FLAGS
}
"""Responses by the flags `sources` and `details`."""


def record(snapshot: Snapshot, sources: bool) -> dict[str, Any]:
    created = snapshot.stored.created
    return vote_count(snapshot.contest, created, snapshot.counts, snapshot.results, sources=sources)


def last_update(snapshot: Snapshot) -> str | None:
    return updated(snapshot.stored.created, snapshot.counts)


def answer_of(snapshot: Snapshot, record: dict[str, Any]) -> EncodedResponse:
    """Encode the response for keys that may see the counts; `Tally-Position` is added when it is sent."""
    finality = FINALITY[snapshot.results.final]
    return encoded(
        record,
        [snapshot.phase, snapshot.visibility, finality],
        [
            (b"cache-control", b"private, max-age=1"),
            (b"tally-final", finality.encode()),
        ],
        snapshot.counts.positions,
    )


LASTING: Final = b"private, max-age=60"
"""`Cache-Control` of a complete minute; participants and mappings may still change."""
BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}


class CountsQuery(NamedTuple):
    """The query parameters: the flags, the tokens of positions to wait for, and the minute (since 1970) whose end
    is requested, or None for now."""

    sources: bool
    details: bool
    min_positions: Sequence[str]
    minute: int | None


class VoteUpdates:
    """Serves the vote count record of a contest."""

    def __init__(
        self,
        auth: Authenticator,
        snapshots: SnapshotCache,
        past: PastCounts,
        votes: VotesLog,
        wait_s: float,
        positions: PositionTokens,
    ) -> None:
        self._auth = auth
        self._positions = positions
        self._snapshots = snapshots
        self._past = past
        self._votes = votes
        self._wait_s = wait_s

    async def __call__(self, request: HotRequest) -> Reply:
        scope = request.scope
        key = self._auth.known(scope) or await self._auth.authenticate(scope)
        require(key, "results:read")
        asked, contest = parse(scope["query_string"]), scope["path_params"]["contest_key"]
        if not self._positions.is_loaded:
            await self._positions.load()
        if asked.min_positions or asked.minute is not None:
            return await asyncio.create_task(self._other_counts(scope["headers"], key, contest, asked))
        snapshot = await self._visible(key, contest, NO_POSITIONS)
        return self._reply(scope["headers"], asked, snapshot)

    async def _other_counts(self, headers: Headers, key: ApiKey, contest: str, asked: CountsQuery) -> Reply:
        """Reply with the counts of a position that must be waited for, or of an earlier minute."""
        wanted = await self._wanted(asked)
        present = await self._visible(key, contest, NO_POSITIONS)
        if wanted:
            present = await self._visible(key, contest, wanted)
        snapshot = present if asked.minute is None else await self._past.as_of(present, asked.minute)
        is_behind = snapshot is present and not covers(snapshot.counts.positions, wanted)
        # events up to the requested position did not change this contest, so its counts are of an earlier one
        reached = merge_positions([snapshot.counts.positions, wanted]) if is_behind else None
        status, sent, body = self._reply(headers, asked, snapshot, reached)
        if asked.minute is not None and is_complete(present, asked.minute):
            sent = [(name, LASTING if name == b"cache-control" else value) for name, value in sent]
        return Reply(status, sent, body)

    async def _wanted(self, asked: CountsQuery) -> Mapping[int, int]:
        """Return the furthest of the requested positions. Raises `ValidationFailed`."""
        try:
            wanted = merge_positions([await self._positions.decode(token) for token in asked.min_positions])
        except ValueError as error:
            raise ValidationFailed([Problem("", f"min_position: {error}", "min_position")]) from error
        if any(partition >= self._votes.end for partition in wanted):
            raise ValidationFailed([Problem("", f"min_position: {BROKEN}", "min_position")])
        return wanted

    async def _visible(self, key: ApiKey, contest: str, positions: Mapping[int, int]) -> Snapshot:
        """Return a snapshot that includes `positions`.

        Raises `NotFound`, `ResultsHidden`, and `ViewsUnavailable` if they are not reached in time.
        """
        snapshot = await self._snapshots.get(key.account, contest, positions, self._wait_s)
        snapshot.check_visible(key.permissions)
        return snapshot

    def _reply(
        self, headers: Headers, asked: CountsQuery, snapshot: Snapshot, reached: Mapping[int, int] | None = None
    ) -> Reply:
        """Return the reply with these counts, up to `reached`."""
        answer = snapshot.answer(ANSWERS[asked.sources, asked.details])
        position = b"tally-position", self._positions.encode(reached or answer.positions).encode()
        return answer.reply(header(headers, b"if-none-match"), [position])


@cached_by_query
def parse(query: bytes) -> CountsQuery:
    """Parse the query; ignores unknown parameters. Raises `ValidationFailed` with the parameter's name."""
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True)
    sources, details = _flag(given, "sources"), _flag(given, "details")
    minute = _minute(given["at"][-1]) if "at" in given else None
    return CountsQuery(sources, details, given.get("min_position", ()), minute)


def flags(query: bytes) -> tuple[bool, bool]:
    """Parse only the parameters `sources` and `details`. Raises `ValidationFailed`."""
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True)
    return _flag(given, "sources"), _flag(given, "details")


def is_complete(present: Snapshot, minute: int) -> bool:
    """Return whether no event of the minute can follow: the views have an event of a minute after its end."""
    return (present.counts.updated_ms or 0) >= (minute + 2) * MINUTE_MS


def _flag(given: Mapping[str, list[str]], name: str) -> bool:
    value = BOOLEANS.get(given.get(name, ["false"])[-1].lower())
    if value is None:
        raise ValidationFailed([Problem("", f"{name} must be true or false", name)])
    return value


def _minute(at: str) -> int:
    try:
        return microseconds(parse_timestamp(at)) // (1000 * MINUTE_MS)
    except ValueError as error:
        raise ValidationFailed([Problem("", f"at {error}", "at")]) from error
