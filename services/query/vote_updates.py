"""`GET /contests/<key>/vote_updates`: a contest's counts, mostly without ASGI."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from libs.contracts.catalogue_events import ApiKey
from libs.contracts.position_token import BROKEN, PositionTokens, merge_positions
from libs.contracts.topics import VotesLog
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.time_conversion import microseconds, parse_timestamp
from libs.views.votes.timeline import MINUTE_MS
from libs.web.door.auth import Authenticator, Headers, header, require
from libs.web.door.query_parameters import cached_by_query
from libs.web.server.hot_requests import HotRequest, Reply
from services.query.contest_sums import NO_POSITIONS
from services.query.count_answers import ANSWERS
from services.query.counts_snapshot import Snapshot
from services.query.historical_counts import PastCounts
from services.query.snapshot_cache import SnapshotCache, covers

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
