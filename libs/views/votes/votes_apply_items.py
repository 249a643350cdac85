"""Items of `votes_apply`: the records of the votes log as the functions in `votes/*.lua` fold them."""

from collections.abc import Sequence
from typing import Any

from libs.contracts.codec import Undecodable, UnknownEvent, plain_vote, vote_codec
from libs.contracts.log_records import LogRecord
from libs.tally.contest import UNLIMITED
from libs.tally.events import (
    ContestClosed,
    ContestReopened,
    Event,
    Fence,
    LogCreated,
    LogLost,
    Rating,
    SourceReported,
    VoteCast,
    VoteRemoved,
    VoteRestored,
    VoteVoided,
)
from libs.views.votes.serialization import BALLOT, FORMS, SOURCES, digest, raw, unlimited

OTHER, CAST, FENCE, POISON, REMOVAL, REPORT, CLOSED, REOPENED, VOIDED, UNKNOWN = range(10)
"""Kinds. Of the last one, an event of a newer version, the views fold nothing: the fold ends before it."""
COUNTS, LIMITS, EPOCHS, WHOLE = 2**24, 2**31, 2**28, 2**53
RATINGS, FIGURES = 2**31, 2**44
"""Exclusive bounds of a stored record's fields; Lua's numbers are exact integers below `WHOLE`."""

NO_CONTEST = "the contest has no name"

Item = list[Any]
"""Kind of a record, its offset and time (ms), and the members that the fold needs."""

OFFSET, REASON, REOPENED_AT_MOST = 1, 3, 5
"""Indexes in an item: in that of poison or a newer version, and in that of a reopening."""


def fold_items(records: Sequence[LogRecord]) -> list[Item]:
    """Convert records of the log; one that cannot be folded becomes poison, with the reason."""
    items: list[Item] = []
    for record in records:
        vote = plain_vote(record.value)
        if vote is None:
            items.append(fold_item(vote_codec.decode(record.value), record.offset, record.timestamp_ms))
            continue
        try:
            items.append(_cast(vote, record.offset, record.timestamp_ms))
        except DoesNotFit as error:
            items.append([POISON, record.offset, record.timestamp_ms, str(error)])
    return items


def reopened_by(item: Item) -> int | None:
    """Return the maximum of waiting changes that a reopening applies (UNLIMITED: all); None of other records."""
    return item[REOPENED_AT_MOST] if item[0] == REOPENED else None


class DoesNotFit(Exception):
    """A number, name or identity of an event cannot be stored in the views."""


def fold_item(event: Event | Undecodable, offset: int, time_ms: int) -> Item:
    """Convert a record to an item of `votes_apply`; one that cannot be folded becomes poison, with the reason."""
    try:
        return _item(event, offset, time_ms)
    except DoesNotFit as error:
        return [POISON, offset, time_ms, str(error)]


def _item(event: Event | Undecodable, offset: int, time_ms: int) -> Item:
    match event:
        case UnknownEvent():
            return [UNKNOWN, offset, time_ms, event.type]
        case Undecodable():
            raise DoesNotFit(event.reason)
        case LogCreated() | LogLost():
            return [OTHER, offset, time_ms]
        case Fence():
            _check(-1 < event.incarnation < WHOLE and -1 < (event.after or 0) < WHOLE, "a number out of range")
            return [FENCE, offset, time_ms, event.incarnation, unlimited(event.after), event.run or ""]
    if isinstance(event, VoteCast):
        return _cast(event, offset, time_ms)
    _check("\0" not in event.contest and event.contest != "", NO_CONTEST)
    head = [offset, time_ms, event.contest]
    match event:
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


def _cast(cast: VoteCast, offset: int, time_ms: int) -> Item:
    """Convert a vote. Votes set the speed of a replay, so their checks are plain statements, without calls."""
    contest, choices, accepted_at, incarnation = cast.contest, cast.choices, cast.accepted_at, cast.incarnation
    max_p, max_c, epoch, next_at = cast.max_participant, cast.max_contest, cast.epoch, cast.next_free_vote_at or 0
    left_p, left_c = unlimited(cast.remaining_participant), unlimited(cast.remaining_contest)
    if contest == "" or "\0" in contest:
        raise DoesNotFit(NO_CONTEST)
    if not _is_of_its_form(cast):
        raise DoesNotFit("the choices do not fit the form")
    for name, count in choices:
        if name == "" or not 0 < count < COUNTS:
            raise DoesNotFit("a choice out of range")
    if not 0 <= epoch < EPOCHS:
        raise DoesNotFit("the epoch is out of range")
    if not (0 <= incarnation < WHOLE and 0 <= accepted_at < WHOLE and 0 <= next_at < WHOLE):
        raise DoesNotFit("a time out of range")
    if not (UNLIMITED <= max_p < LIMITS and UNLIMITED <= max_c < LIMITS):
        raise DoesNotFit("a limit out of range")
    if not (UNLIMITED <= left_p < LIMITS and UNLIMITED <= left_c < LIMITS):
        raise DoesNotFit("a limit out of range")
    form = FORMS.index(cast.form)
    item = [
        CAST,
        offset,
        time_ms,
        contest,
        _voter(cast.voter),
        digest(cast.vote_id),
        _content(cast.content),
        int(cast.anonymous),
        SOURCES.index(cast.source),
        form,
        *((choices, 0) if form == BALLOT else choices[0]),
        accepted_at,
        incarnation,
        max_p,
        max_c,
        epoch,
        left_p,
        left_c,
        next_at,
    ]
    if cast.rating is not None:
        item.append(_rating(cast.rating))
    return item


def _rating(rating: Rating) -> list[Any]:
    values = rating.value, *(value for _, value in rating.sub_ratings)
    _check(all(0 <= value < RATINGS for value in values), "a rating out of range")
    return [rating.value, [part for pair in rating.sub_ratings for part in pair]]


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
