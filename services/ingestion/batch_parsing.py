"""Parsing of batches: JSON or NDJSON; each item is parsed separately, and has an id of its own."""

import json
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec
from pydantic import ValidationError

from libs.contracts.limits import VOTE_BODY
from libs.contracts.validation import Problem, ValidationFailed, pointer
from libs.tally.errors import TallyError
from libs.tally.vote_commands import CastVote
from libs.web.door.request_parsing import MAX_DEPTH, check_size, load_json
from libs.web.errors import MalformedJson, PayloadTooLarge
from services.ingestion.vote_forms import VoteForm, check_vote

MAX_BATCH = 10_000
MAX_LINES = 10 * MAX_BATCH
MAX_VOTE_VALUES = 1_000
"""Members and items of one vote, more than any valid vote has."""
NDJSON = "application/x-ndjson"
MAX_CONTAINERS = 200_000
"""Objects and arrays in a JSON batch; parsing millions of them would take a second."""
SMALL_VOTE = 4_096
"""Bytes of a vote that is validated at once. The values of larger ones are counted before, as each that is invalid
takes time."""
MAX_ID_SHOWN = 64
"""Characters of a refused vote's id; longer and non-ASCII ids are invalid and not returned."""


class Ballot(NamedTuple):
    """A vote or its error, and its id if it has one."""

    vote: VoteForm | TallyError
    vote_id: str | None


class BatchIds:
    """Gives votes without an id one that derives from the batch's idempotency key: always the same.

    An id derives from the key, the vote's voter and content, and the number of equal votes before it, so a shorter
    or reordered repetition keeps its ids. The voter is a pseudonym: no id in the log may outlive the contest's
    secret as a hash of the voter's own id.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._equal: Counter[tuple[str, str]] = Counter()

    def name(self, vote: CastVote) -> CastVote:
        """Return `vote` with an id. Votes must be given in their order in the batch."""
        if vote.vote_id:
            return vote
        equal = vote.voter, vote.content
        derived = sha256("\0".join((self._key, *equal, str(self._equal[equal]))).encode()).hexdigest()
        self._equal[equal] += 1
        return vote._replace(vote_id=derived[:32])


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    """A JSON batch, whose votes are parsed one by one."""

    votes: list[msgspec.Raw]


_read_batch: Final = msgspec.json.Decoder(Batch).decode


def split_batch(media_type: str, body: bytes) -> Sequence[bytes]:
    """Split a batch into the JSON of its items. Raises the error of the batch as a whole."""
    if media_type == NDJSON:
        if body.count(b"\n") > MAX_LINES:
            raise PayloadTooLarge(f"A batch may have {MAX_LINES:,} lines at most, blank ones included.")
        items = [line for line in body.split(b"\n") if line.strip()]
    else:
        if body.count(b"{") + body.count(b"[") > MAX_CONTAINERS:
            raise PayloadTooLarge(f"A batch may have {MAX_CONTAINERS:,} objects and arrays at most.")
        try:
            items = [bytes(vote) for vote in _read_batch(body).votes]
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            items = _split_slowly(body)
    if len(items) > MAX_BATCH:
        raise PayloadTooLarge(f"A batch may have {MAX_BATCH:,} votes at most; send the rest in another.")
    return items


def _split_slowly(body: bytes) -> list[bytes]:
    """Split a JSON batch with oversized numbers or lone surrogates, whose items are refused by themselves later.

    Raises the error of any other body.
    """
    try:
        value = load_json(body)
    except MalformedJson:
        try:
            value = json.loads(body.decode(), parse_constant=_no_json)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise
    if not isinstance(value, dict):
        raise ValidationFailed([Problem("", "must be a JSON object")])
    votes = value.pop("votes", None)
    problems = [Problem(pointer(name), "unknown member") for name in value]
    if not isinstance(votes, list):
        raise ValidationFailed([Problem("/votes", "must be an array of votes"), *problems])
    if problems:
        raise ValidationFailed(problems)
    try:
        return [json.dumps(vote).encode() for vote in votes]
    except RecursionError as error:
        raise MalformedJson(f"The body nests deeper than {MAX_DEPTH} levels.") from error


def _no_json(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def parse_item(item: bytes) -> Ballot:
    """Parse one vote of a batch."""
    if len(item) > VOTE_BODY:
        return Ballot(PayloadTooLarge(f"A vote may have {VOTE_BODY:,} bytes at most.", max_bytes=VOTE_BODY), None)
    if len(item) <= SMALL_VOTE:
        try:
            form = VoteForm.model_validate_json(item)
        except ValidationError:
            pass  # explained below
        else:
            return Ballot(form, form.vote_id)
    value = None
    try:
        value = load_json(item)
        check_size(value, MAX_VOTE_VALUES)
    except TallyError as error:
        return Ballot(error, id_in(value))
    vote = check_vote(value)
    return Ballot(vote, vote.vote_id if isinstance(vote, VoteForm) else id_in(value))


def id_in(value: Any) -> str | None:
    """Return a refused vote's id if it could be valid."""
    given = value.get("vote_id") if isinstance(value, dict) else None
    return given if isinstance(given, str) and given.isascii() and len(given) <= MAX_ID_SHOWN else None
