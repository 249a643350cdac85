"""Between the words of `libs.tally` and the packed arguments of the functions in `lua/votes`."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import msgpack

from libs.contracts.codec import Undecodable
from libs.tally.admission import (
    Answer,
    Declined,
    Granted,
    Known,
    NotRunning,
    OverLimit,
    Request,
    Reused,
    Shut,
    Stale,
)
from libs.tally.contest import UNLIMITED
from libs.tally.errors import LimitScope
from libs.tally.events import Event, Fence, VoteCast
from libs.tally.rules import limits_of
from libs.tally.standing import VoteStatus

SOURCES: Final = ("c-free", "c-paid")
CAST, FENCE, POISON, OTHER = 1, 2, 3, 0
COUNTS, LIMITS, EPOCHS, WHOLE = 2**24, 2**31, 2**28, 2**53
"""What the fields of a record in `lua/votes` have room for, and where Lua's numbers stop being whole."""

pack = msgpack.Packer(use_bin_type=False, autoreset=True).pack


def unpack(reply: bytes) -> Any:
    return msgpack.unpackb(reply, raw=True, strict_map_key=False)


def raw(pseudonym: str) -> bytes:
    """The bytes behind an unpadded base64url text: half the size in the views."""
    return urlsafe_b64decode(pseudonym + "=" * (-len(pseudonym) % 4))


def text(raw_bytes: bytes) -> str:
    return urlsafe_b64encode(raw_bytes).rstrip(b"=").decode()


def digest(vote_id: str) -> bytes:
    """12 bytes that stand for a vote id within one voter's ledger."""
    return sha256(vote_id.encode()).digest()[:12]


def request_item(request: Request) -> list[Any]:
    contest = request.contest
    runs = contest.runs() or (UNLIMITED, UNLIMITED)
    limits = limits_of(contest, request.source)
    return [
        contest.key,
        raw(request.voter),
        digest(request.vote_id),
        raw(request.content),
        contest.version,
        *runs,
        request.declined,
        SOURCES.index(request.source),
        request.participant,
        request.count,
        limits.max_participant,
        limits.max_contest,
    ]


def answer(reply: Sequence[Any]) -> Answer:
    match reply:
        case [0 | 1 as kind, at, n, left_p, left_c, next_at, *judged_by]:
            return Granted(kind == 1, at, n, limited(left_p), limited(left_c), next_at or None, *judged_by)
        case [2, at, _, left_p, left_c, next_at, offset, status]:
            return Known(at, limited(left_p), limited(left_c), next_at or None, offset, VoteStatus(status))
        case [3]:
            return Reused()
        case [4]:
            return Shut()
        case [5, in_force, n]:
            return Stale(limited(in_force), n)
        case [6, now]:
            return NotRunning(now)
        case [7, now]:
            return Declined(now)
        case [8 | 9 as kind, limit, used, next_at]:
            scope = LimitScope.PARTICIPANT if kind == 8 else LimitScope.CONTEST
            return OverLimit(scope, limit, used, next_at or None)
    raise ValueError(f"unknown reply of votes_reserve: {reply!r}")


def limited(number: int) -> int | None:
    return None if number == UNLIMITED else number


def _fits(cast: VoteCast) -> bool:
    """Whether the views have room for the vote's numbers and names, and each name is one there."""
    ((participant, count),) = cast.choices
    left_p, left_c = cast.remaining_participant or 0, cast.remaining_contest or 0
    return (
        participant != ""
        and "\0" not in cast.contest
        and 0 < count < COUNTS
        and 0 <= cast.epoch < EPOCHS
        and 0 <= cast.incarnation < WHOLE
        and 0 <= cast.accepted_at < WHOLE
        and 0 <= (cast.next_free_vote_at or 0) < WHOLE
        and UNLIMITED <= cast.max_participant < LIMITS
        and UNLIMITED <= cast.max_contest < LIMITS
        and UNLIMITED <= left_p < LIMITS
        and UNLIMITED <= left_c < LIMITS
    )


def fold_item(event: Event | Undecodable, offset: int, time_ms: int) -> list[Any]:
    """One record of the log as `votes_apply` takes it."""
    if isinstance(event, VoteCast):
        try:
            voter, content, vote_id = raw(event.voter), raw(event.content), digest(event.vote_id)
        except ValueError as error:
            return [POISON, offset, f"voter, content or vote id: {error}"]
        if len(voter) != len(event.voter) * 3 // 4:
            return [POISON, offset, "the voter is no base64url text"]
        if len(content) != 8 or len(event.choices) != 1:
            return [POISON, offset, "a vote has one choice and a content hash of 8 bytes"]
        if not _fits(event):
            return [POISON, offset, "a number or a name out of range"]
        return [
            CAST,
            offset,
            time_ms,
            event.contest,
            voter,
            int(event.anonymous),
            vote_id,
            content,
            SOURCES.index(event.source),
            event.choices,
            event.accepted_at,
            event.incarnation,
            event.max_participant,
            event.max_contest,
            event.epoch,
            UNLIMITED if event.remaining_participant is None else event.remaining_participant,
            UNLIMITED if event.remaining_contest is None else event.remaining_contest,
            event.next_free_vote_at or 0,
        ]
    if isinstance(event, Fence):
        if not -1 < event.incarnation < WHOLE or not -1 < (event.after or 0) < WHOLE:
            return [POISON, offset, "a number out of range"]
        after = UNLIMITED if event.after is None else event.after
        return [FENCE, offset, event.incarnation, after, event.run or ""]
    if isinstance(event, Undecodable):
        return [POISON, offset, event.reason]
    return [OTHER]
