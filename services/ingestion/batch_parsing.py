"""Parsing of batches: JSON or NDJSON; each item is parsed separately, and has an id of its own."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from libs.contracts.limits import VOTE_BODY
from libs.contracts.validation import Problem, ValidationFailed, pointer
from libs.tally.errors import TallyError
from libs.tally.vote_commands import CastVote
from libs.web.door.request_parsing import check_size, load_json
from libs.web.errors import MalformedJson, PayloadTooLarge
from services.ingestion.vote_forms import VoteForm, check_vote, new_vote_id

MAX_BATCH = 10_000
MAX_LINES = 10 * MAX_BATCH
MAX_VOTE_VALUES = 1_000
"""Members and items of one vote, more than any valid vote has."""
NDJSON = "application/x-ndjson"
MAX_CONTAINERS = 200_000
"""Objects and arrays in a JSON batch; parsing millions of them would take a second."""
MAX_ID_SHOWN = 64
"""Characters of a refused vote's id; longer and non-ASCII ids are invalid and not returned."""


class Ballot(NamedTuple):
    """A vote or its error, and its id if it has one."""

    vote: VoteForm | TallyError
    vote_id: str | None


class BatchIds:
    """Gives a batch's votes without an id one: new, or with an idempotency key `key` always the same.

    An id derives from the key, the vote's voter and content, and the number of equal votes before it, so a shorter
    or reordered repetition keeps its ids. The voter is a pseudonym: no id in the log may outlive the contest's
    secret as a hash of the voter's own id.
    """

    def __init__(self, key: str | None) -> None:
        self._key = key
        self._equal: Counter[tuple[str, str]] = Counter()

    def name(self, vote: CastVote) -> CastVote:
        """Return `vote` with an id. Votes must be given in their order in the batch."""
        if vote.vote_id:
            return vote
        if self._key is None:
            return vote._replace(vote_id=new_vote_id())
        equal = vote.voter, vote.content
        derived = sha256("\0".join((self._key, *equal, str(self._equal[equal]))).encode()).hexdigest()
        self._equal[equal] += 1
        return vote._replace(vote_id=derived[:32])


def parse_batch(media_type: str, body: bytes) -> Sequence[Callable[[], Ballot]]:
    """Split a batch into items, each parsed when called. Raises the error of the batch as a whole."""
    if media_type == NDJSON:
        if body.count(b"\n") > MAX_LINES:
            raise PayloadTooLarge(f"A batch may have {MAX_LINES:,} lines at most, blank ones included.")
        lines = [line for line in body.split(b"\n") if line.strip()]
        _refuse_more_than_most(lines)
        return [partial(_line, line) for line in lines]
    value = _object(body)
    votes = value.pop("votes", None)
    problems = [Problem(pointer(name), "unknown member") for name in value]
    if not isinstance(votes, list):
        raise ValidationFailed([Problem("/votes", "must be an array of votes"), *problems])
    if problems:
        raise ValidationFailed(problems)
    _refuse_more_than_most(votes)
    return [partial(_item, vote) for vote in votes]


def _object(body: bytes) -> dict[str, Any]:
    """Parse the batch's members; an item with oversized numbers or lone surrogates is rejected by itself later."""
    if body.count(b"{") + body.count(b"[") > MAX_CONTAINERS:
        raise PayloadTooLarge(f"A batch may have {MAX_CONTAINERS:,} objects and arrays at most.")
    try:
        value = load_json(body)
        if not isinstance(value, dict):
            raise ValidationFailed([Problem("", "must be a JSON object")])
        return value
    except MalformedJson:
        try:
            value = json.loads(body.decode(), parse_constant=_no_json)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise
        return value


def _no_json(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _line(line: bytes) -> Ballot:
    if len(line) > VOTE_BODY:
        return Ballot(_too_large(), None)
    try:
        return _item(load_json(line))
    except MalformedJson as error:
        return Ballot(error, None)


def _item(value: Any) -> Ballot:
    try:
        check_size(value, MAX_VOTE_VALUES)
        size = len(orjson.dumps(value))
    except orjson.JSONEncodeError:
        return Ballot(ValidationFailed([Problem("", "has an invalid string or number")]), None)
    except TallyError as error:
        return Ballot(error, id_in(value))
    vote = check_vote(value) if size <= VOTE_BODY else _too_large()
    if isinstance(vote, VoteForm):
        return Ballot(vote, vote.vote_id)
    return Ballot(vote, id_in(value))


def id_in(value: Any) -> str | None:
    """Return a refused vote's id if it could be valid."""
    given = value.get("vote_id") if isinstance(value, dict) else None
    return given if isinstance(given, str) and given.isascii() and len(given) <= MAX_ID_SHOWN else None


def _too_large() -> PayloadTooLarge:
    return PayloadTooLarge(f"A vote may have {VOTE_BODY:,} bytes at most.", max_bytes=VOTE_BODY)


def _refuse_more_than_most(items: Sequence[object]) -> None:
    if len(items) > MAX_BATCH:
        raise PayloadTooLarge(f"A batch may have {MAX_BATCH:,} votes at most; send the rest in another.")
