"""Conversion between the types of `libs.tally` and the packed arguments and replies of `votes/*.lua`."""

from base64 import urlsafe_b64encode
from binascii import a2b_base64
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from libs.tally.contest import UNLIMITED, Contest
from libs.tally.errors import LimitScope
from libs.tally.reservations import (
    Answer,
    Duplicate,
    GateClosed,
    Granted,
    IdConflict,
    NotCounted,
    NotFolded,
    NotRunning,
    OverLimit,
    Paid,
    RefusedByCaller,
    RemovalAnswer,
    RemovalGranted,
    Request,
    Stale,
    Unknown,
    VoteTerms,
)
from libs.tally.voter_ledger import VoteStatus

SOURCES: Final = ("c-free", "c-paid")
FORMS: Final = ("plain", "rating", "ballot")
BALLOT: Final = 2
"""Index in `FORMS`."""

_FROM_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")
_PADDING: Final = b"", b"===", b"==", b"="


def raw(pseudonym: str) -> bytes:
    """Decode unpadded base64url, to save a quarter of the size in the views.

    Raises `ValueError` as `urlsafe_b64decode` does, which takes twice as long.
    """
    return a2b_base64(pseudonym.encode("ascii").translate(_FROM_URL_SAFE) + _PADDING[len(pseudonym) % 4])


def text(raw_bytes: bytes) -> str:
    return urlsafe_b64encode(raw_bytes).rstrip(b"=").decode()


def digest(vote_id: str) -> bytes:
    """Hash a vote id to the 12 bytes that identify it within one voter's ledger."""
    return sha256(vote_id.encode()).digest()[:12]


def span(contest: Contest) -> tuple[int, int]:
    """Return the interval [from, until) in which the contest runs (us); -1: never, or no end."""
    return contest.runs() or (UNLIMITED, UNLIMITED)


NOTHING_CHOSEN: Final = (0, (("", 0),), 0, 0)
"""Placeholder for the selection of a vote that the caller refuses: the function ignores it."""


def request_item(request: Request) -> list[Any]:
    contest, selection = request.contest, request.selection
    selected: Sequence[Any] = NOTHING_CHOSEN
    if selection is not None:
        limits = selection.max_participant, selection.max_contest
        selected = FORMS.index(selection.form), selection.choices, *limits
    return [
        contest.key,
        raw(request.voter),
        digest(request.vote_id),
        raw(request.content),
        contest.version,
        *span(contest),
        contest.reopened,
        selection is None,
        SOURCES.index(request.source),
        *selected,
        contest.renewal.cooldown_us,
        contest.renewal.days_between,
    ]


def answer(reply: Sequence[Any]) -> Answer:
    if reply[0] <= 1:
        kind, at, n, left_p, left_c, next_at, epoch, config, max_p, max_c, form, choices = reply
        votes = tuple([(participant.decode(), count) for participant, count in choices])
        terms = VoteTerms(at, limited(left_p), limited(left_c), next_at or None, votes)
        return Granted(kind == 1, terms, n, epoch, config, max_p, max_c, FORMS[form])
    match reply:
        case [2, at, _, left_p, left_c, next_at, offset, status, *chosen]:
            return Duplicate(vote_terms(at, left_p, left_c, next_at, chosen), offset, VoteStatus(status))
        case [3]:
            return IdConflict()
        case [8 | 9 as kind, limit, used, next_at, now]:
            scope = LimitScope.PARTICIPANT if kind == 8 else LimitScope.CONTEST
            return OverLimit(scope, limit, used, next_at or None, now)
    return _not_admitted(reply)


def vote_terms(at: int, left_p: int, left_c: int, next_at: int, chosen: Sequence[Any]) -> VoteTerms:
    """Decode the terms of a folded vote; `chosen` is a flat list of participants and votes."""
    names = [name.decode() for name in chosen[::2]]
    choices = tuple(zip(names, chosen[1::2], strict=True))
    return VoteTerms(at, limited(left_p), limited(left_c), next_at or None, choices)


def _not_admitted(reply: Sequence[Any]) -> GateClosed | Stale | NotRunning | RefusedByCaller:
    match reply:
        case [4]:
            return GateClosed()
        case [5, in_force, n]:
            return Stale(limited(in_force), n)
        case [6, now]:
            return NotRunning(now)
        case [7, now]:
            return RefusedByCaller(now)
    raise ValueError(f"unknown reply: {reply!r}")


def removal_answer(reply: Sequence[Any]) -> RemovalAnswer:
    match reply:
        case [0, now, n, anonymous, content, source, offset]:
            return RemovalGranted(now, n, bool(anonymous), text(content), SOURCES[source], limited(offset))
        case [10]:
            return Unknown()
        case [11]:
            return NotFolded()
        case [12, status, offset]:
            return NotCounted(VoteStatus(status), offset)
        case [13]:
            return Paid()
    return _not_admitted(reply)


def limited(number: int) -> int | None:
    return None if number == UNLIMITED else number


def unlimited(number: int | None) -> int:
    return UNLIMITED if number is None else number
