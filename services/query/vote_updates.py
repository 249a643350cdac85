"""`GET /contests/<key>/vote_updates`: a contest's counts, as bare ASGI; the current ones mostly without it."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from libs.contracts.position_token import decode_positions, encode_positions, merge_positions
from libs.contracts.validation import Problem, ValidationFailed
from libs.contracts.votes_log import VotesLog
from libs.tally.time_conversion import microseconds, parse_timestamp
from libs.views.timeline import MINUTE_MS
from libs.web.auth import ApiKey, Authenticator, Headers, header, require
from libs.web.etags import not_modified
from libs.web.query_parameters import cached_by_query
from libs.web.server.direct_routes import DirectCycle
from services.query.contest_sums import NO_POSITIONS
from services.query.counts_snapshot import Snapshot
from services.query.encoded_response import Header
from services.query.errors import ResultsHidden
from services.query.historical_counts import PastCounts
from services.query.snapshot_cache import SnapshotCache, covers, now
from services.query.vote_count_record import ANSWERS

LASTING: Final = b"private, max-age=60"
"""`Cache-Control` of a complete minute; participants and mappings may still change."""
BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}


class CountsQuery(NamedTuple):
    """The query parameters: the flags, the positions to wait for, and the minute (since 1970) whose end is
    requested, or None for now."""

    sources: bool
    details: bool
    positions: Mapping[int, int]
    minute: int | None


class VoteUpdates:
    """Serves the vote count record of a contest."""

    def __init__(
        self, auth: Authenticator, snapshots: SnapshotCache, past: PastCounts, votes: VotesLog, wait_s: float
    ) -> None:
        self._auth = auth
        self._snapshots = snapshots
        self._past = past
        self._votes = votes
        self._wait_s = wait_s

    def start(self, request: DirectCycle) -> bool:
        """Respond as `__call__` does, without a task; False if a position or a time is requested."""
        scope = request.scope
        key = self._auth.known(scope)
        if key is None:
            return False
        require(key, "results:read")
        asked = parse(scope["query_string"], self._votes.end)
        if asked.positions or asked.minute is not None:
            return False
        contest = scope["path_params"]["contest_key"]
        self._snapshots.find(key.account, contest, partial(_respond, request, key, asked))
        return True

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        key = self._auth.known(scope) or await self._auth.authenticate(scope)
        require(key, "results:read")
        asked = parse(scope["query_string"], self._votes.end)
        contest = scope["path_params"]["contest_key"]
        present = await self._visible(key, contest, NO_POSITIONS)
        if asked.positions:
            present = await self._visible(key, contest, asked.positions)
        snapshot = present if asked.minute is None else await self._past.as_of(present, asked.minute)
        status, sent, body = _response(scope["headers"], asked, snapshot)
        if asked.minute is not None and is_complete(present, asked.minute):
            sent = [(name, LASTING if name == b"cache-control" else value) for name, value in sent]
        if snapshot is present and asked.positions and not covers(snapshot.counts.positions, asked.positions):
            # events up to the requested position did not change this contest, so its counts are of an earlier one
            reached = encode_positions(merge_positions([snapshot.counts.positions, asked.positions])).encode()
            sent = [(name, reached if name == b"tally-position" else value) for name, value in sent]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": body})

    async def _visible(self, key: ApiKey, contest: str, positions: Mapping[int, int]) -> Snapshot:
        """Return a snapshot that includes `positions`.

        Raises `NotFound`, `ResultsHidden`, and `ViewsUnavailable` if they are not reached in time.
        """
        snapshot = await self._snapshots.get(key.account, contest, positions, self._wait_s)
        _check_visible(key, snapshot)
        return snapshot


def _respond(request: DirectCycle, key: ApiKey, asked: CountsQuery, found: Snapshot | BaseException) -> None:
    """Respond with the current counts, or with the error of reading them. Raises nothing."""
    try:
        if isinstance(found, BaseException):
            raise found
        _check_visible(key, found)
        request.respond(*_response(request.scope["headers"], asked, found))
    except asyncio.CancelledError:
        request.release()  # the process ends
    except Exception as error:
        request.fail(error)


def _check_visible(key: ApiKey, snapshot: Snapshot) -> None:
    """Raise `ResultsHidden` if the key may not see the counts now."""
    if "results:read_hidden" not in key.permissions and snapshot.hides(now()):
        raise ResultsHidden(snapshot.visibility)


def _response(headers: Headers, asked: CountsQuery, snapshot: Snapshot) -> tuple[int, list[Header], bytes]:
    """Return status, headers and body of a response with these counts."""
    answer = snapshot.answer(ANSWERS[asked.sources, asked.details])
    if not_modified(header(headers, b"if-none-match"), answer.tag):
        return 304, answer.not_modified, b""
    return 200, answer.headers, answer.body


@cached_by_query
def parse(query: bytes, end: int) -> CountsQuery:
    """Parse the query; ignores unknown parameters. Raises `ValidationFailed` with the parameter's name.

    A position's partitions must be before `end`.
    """
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True)
    sources, details = _flag(given, "sources"), _flag(given, "details")
    minute = _minute(given["at"][-1]) if "at" in given else None
    if "min_position" not in given:
        return CountsQuery(sources, details, NO_POSITIONS, minute)
    try:
        positions = decode_positions(given["min_position"][-1])
    except ValueError as error:
        raise ValidationFailed([Problem("", f"min_position: {error}", "min_position")]) from error
    if any(partition >= end for partition in positions):
        message = "min_position is not a token of this service"
        raise ValidationFailed([Problem("", message, "min_position")])
    return CountsQuery(sources, details, positions, minute)


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
