"""Conversion between the types of `libs.tally` and the packed arguments and replies of `lua/votes`."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

import msgpack

from libs.contracts.codec import Undecodable
from libs.tally.contest import UNLIMITED, Contest
from libs.tally.errors import LimitScope
from libs.tally.events import (
    ContestClosed,
    ContestReopened,
    Event,
    Fence,
    LogCreated,
    SourceReported,
    VoteCast,
    VoteRemoved,
    VoteRestored,
    VoteVoided,
)
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
)
from libs.tally.voter_ledger import VoteStatus

SOURCES: Final = ("c-free", "c-paid")
FORMS: Final = ("plain", "rating", "ballot")
OTHER, CAST, FENCE, POISON, REMOVAL, REPORT, CLOSED, REOPENED, VOIDED = range(9)
COUNTS, LIMITS, EPOCHS, WHOLE = 2**24, 2**31, 2**28, 2**53
RATINGS, FIGURES = 2**31, 2**44
"""Exclusive bounds of a stored record's fields; Lua's numbers are exact integers below `WHOLE`."""

_GLOB: Final = str.maketrans({character: f"\\{character}" for character in "*?[]\\^"})

pack = msgpack.Packer(use_bin_type=False, autoreset=True).pack


def unpack(reply: bytes) -> Any:
    return msgpack.unpackb(reply, raw=True, strict_map_key=False)


def raw(pseudonym: str) -> bytes:
    """Decode unpadded base64url, to save a quarter of the size in the views."""
    return urlsafe_b64decode(pseudonym + "=" * (-len(pseudonym) % 4))


def text(raw_bytes: bytes) -> str:
    return urlsafe_b64encode(raw_bytes).rstrip(b"=").decode()


def digest(vote_id: str) -> bytes:
    """Hash a vote id to the 12 bytes that identify it within one voter's ledger."""
    return sha256(vote_id.encode()).digest()[:12]


def span(contest: Contest) -> tuple[int, int]:
    """Return the interval [from, until) in which the contest runs (us); -1: never, or no end."""
    return contest.runs() or (UNLIMITED, UNLIMITED)


def glob_escaped(name: str) -> str:
    """Escape `name` for a SCAN pattern."""
    return name.translate(_GLOB)


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
    match reply:
        case [0 | 1 as kind, at, n, left_p, left_c, next_at, epoch, config, max_p, max_c, form, choices]:
            return Granted(
                joined=kind == 1,
                accepted_at=at,
                incarnation=n,
                remaining_participant=limited(left_p),
                remaining_contest=limited(left_c),
                next_free_vote_at=next_at or None,
                epoch=epoch,
                config=config,
                max_participant=max_p,
                max_contest=max_c,
                form=FORMS[form],
                choices=tuple([(participant.decode(), votes) for participant, votes in choices]),
            )
        case [2, at, _, left_p, left_c, next_at, offset, status, *chosen]:
            left = limited(left_p), limited(left_c)
            names = [name.decode() for name in chosen[::2]]
            choices = tuple(zip(names, chosen[1::2], strict=True))
            return Duplicate(at, *left, next_at or None, offset, VoteStatus(status), choices)
        case [3]:
            return IdConflict()
        case [8 | 9 as kind, limit, used, next_at, now]:
            scope = LimitScope.PARTICIPANT if kind == 8 else LimitScope.CONTEST
            return OverLimit(scope, limit, used, next_at or None, now)
    return _not_admitted(reply)


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


class DoesNotFit(Exception):
    """A number, name or identity of an event cannot be stored in the views."""


def fold_item(event: Event | Undecodable, offset: int, time_ms: int) -> list[Any]:
    """Convert a record to an item of `votes_apply`; one that cannot be folded becomes poison, with the reason."""
    try:
        return _item(event, offset, time_ms)
    except DoesNotFit as error:
        return [POISON, offset, str(error)]


def _item(event: Event | Undecodable, offset: int, time_ms: int) -> list[Any]:
    match event:
        case Undecodable():
            raise DoesNotFit(event.reason)
        case LogCreated():
            return [OTHER, offset]
        case Fence():
            _check(-1 < event.incarnation < WHOLE and -1 < (event.after or 0) < WHOLE, "a number out of range")
            return [FENCE, offset, event.incarnation, unlimited(event.after), event.run or ""]
    _check("\0" not in event.contest and event.contest != "", "the contest has no name")
    head = [offset, time_ms, event.contest]
    match event:
        case VoteCast():
            return [CAST, *head, *_cast(event)]
        case VoteRemoved():
            _check(0 <= event.incarnation < WHOLE and 0 <= event.removed_at < WHOLE, "a number out of range")
            identity = _voter(event.voter), digest(event.vote_id), event.incarnation
            vote = int(event.anonymous), _content(event.content), SOURCES.index(event.source), event.removed_at
            return [REMOVAL, *head, *identity, *vote]
        case VoteVoided() | VoteRestored():
            _check(event.void != "", "the operation has no name")
            name = _voter(event.voter), digest(event.vote_id)
            return [VOIDED, *head, *name, int(isinstance(event, VoteRestored)), event.void]
        case SourceReported():
            _check(_name(event.source) and _name(event.report_id), "the source or the report has no name")
            for mapped, *numbers in event.counts:
                _check(mapped != "" and all(0 <= n < FIGURES for n in numbers), "a figure out of range")
            report = event.source, event.report_id, _content(event.content)
            return [REPORT, *head, *report, event.mode == "delta", event.allow_decrease, event.counts]
        case ContestClosed():
            _check(0 < event.seq < WHOLE, "a number out of range")
            _check(event.source is None or _name(event.source), "the source has no name")
            return [CLOSED, *head, event.seq, event.source or ""]
        case ContestReopened():
            _check(0 < event.seq < WHOLE, "a number out of range")
            _check(event.at_most is None or 0 < event.at_most < WHOLE, "a number out of range")
            return [REOPENED, *head, event.seq, UNLIMITED if event.at_most is None else event.at_most]


def _cast(cast: VoteCast) -> list[Any]:
    _check(_is_of_its_form(cast), "the choices do not fit the form")
    _check(all(name != "" and 0 < count < COUNTS for name, count in cast.choices), "a choice out of range")
    _check(0 <= cast.epoch < EPOCHS, "the epoch is out of range")
    moments = cast.incarnation, cast.accepted_at, cast.next_free_vote_at or 0
    _check(all(0 <= moment < WHOLE for moment in moments), "a time out of range")
    limits = cast.max_participant, cast.max_contest, cast.remaining_participant or 0, cast.remaining_contest or 0
    _check(all(UNLIMITED <= limit < LIMITS for limit in limits), "a limit out of range")
    rating = None
    if cast.rating is not None:
        values = (cast.rating.value, *(value for _, value in cast.rating.sub_ratings))
        _check(all(0 <= value < RATINGS for value in values), "a rating out of range")
        rating = [cast.rating.value, [part for pair in cast.rating.sub_ratings for part in pair]]
    return [
        _voter(cast.voter),
        int(cast.anonymous),
        digest(cast.vote_id),
        _content(cast.content),
        SOURCES.index(cast.source),
        cast.choices,
        cast.accepted_at,
        cast.incarnation,
        cast.max_participant,
        cast.max_contest,
        cast.epoch,
        unlimited(cast.remaining_participant),
        unlimited(cast.remaining_contest),
        cast.next_free_vote_at or 0,
        FORMS.index(cast.form),
        rating or False,
    ]


def _is_of_its_form(cast: VoteCast) -> bool:
    if cast.form == "ballot":
        participants = {participant for participant, _ in cast.choices}
        return 0 < len(cast.choices) == len(participants) and cast.rating is None
    if len(cast.choices) != 1:
        return False
    return cast.rating is None if cast.form == "plain" else cast.rating is not None and cast.choices[0][1] == 1


def _voter(voter: str) -> bytes:
    try:
        found = raw(voter)
    except ValueError as error:
        raise DoesNotFit(f"voter: {error}") from error
    _check(len(found) == len(voter) * 3 // 4, "the voter is no base64url text")
    return found


def _content(content: str) -> bytes:
    try:
        found = raw(content)
    except ValueError as error:
        raise DoesNotFit(f"content: {error}") from error
    _check(len(found) == 8, "a content hash has 8 bytes")
    return found


def _name(text: str) -> bool:
    return text != "" and "\0" not in text


def _check(is_valid: bool, reason: str) -> None:
    if not is_valid:
        raise DoesNotFit(reason)
