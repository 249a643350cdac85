"""Between the words of `libs.tally` and the packed arguments of the functions in `votes.lua`."""

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
from libs.tally.tallies import VoteStatus

SOURCES: Final = ("c-free", "c-paid")
CAST, FENCE, POISON, OTHER = 1, 2, 3, 0

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


def fold_item(event: Event | Undecodable, offset: int, time_ms: int) -> list[Any]:
    """One record of the log as `votes_apply` takes it."""
    if isinstance(event, VoteCast):
        try:
            voter, content = raw(event.voter), raw(event.content)
        except ValueError as error:
            return [POISON, offset, f"voter or content: {error}"]
        if len(content) != 8 or len(event.choices) != 1:
            return [POISON, offset, "a vote has one choice and a content hash of 8 bytes"]
        return [
            CAST,
            offset,
            time_ms,
            event.contest,
            voter,
            int(event.anonymous),
            digest(event.vote_id),
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
        after = UNLIMITED if event.after is None else event.after
        return [FENCE, offset, event.incarnation, after, event.run or ""]
    if isinstance(event, Undecodable):
        return [POISON, offset, event.reason]
    return [OTHER]
