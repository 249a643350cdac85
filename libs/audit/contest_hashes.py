"""Compares a contest's Valkey hashes, beside its counts and voters, with the values that the fold expects."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from libs.audit.difference import Difference
from libs.audit.log_fold import LogFold
from libs.tally.events import VoteRestored
from libs.tally.fold import ContestTally
from libs.tally.time import timestamp
from libs.tally.voter_ledger import FoldedVote
from libs.views.ledger_scan import DIGEST_SIZE, INLINE, HashPage, has_details, read_record, record_of
from libs.views.serialization import FORMS, SOURCES, digest, raw, text, unpack
from libs.views.timeline import Moment, field_of, moment_of, past_of
from libs.views.votes import source_figures, source_row

VOID_MARK: Final = b"V"
"""Ends the name of a field that holds a vote's waiting void or restore."""


class Hash(NamedTuple):
    """A hash of the views and its comparison with the fold.

    `fields` yields all fields that the fold expects, `expected_value` returns a function from a field to its value
    in the fold (None: absent), `decode` decodes a stored value, and `label` names a field in the report.
    """

    name: str
    fields: Callable[[LogFold, str], Iterator[bytes]]
    expected_value: Callable[[LogFold, str], Callable[[bytes], Any]]
    decode: Callable[[bytes], Any]
    label: Callable[[bytes], str]


def tally_of(fold: LogFold, contest: str) -> ContestTally:
    return fold.tally.contests.get(contest, ContestTally())


def index_of(fold: LogFold, contest: str, vote: FoldedVote) -> int:
    """Return the participant index stored in the vote's record."""
    choices = vote.cast.choices
    return fold.indexes[contest][choices[0][0]] if choices else 0


def hash_differences(fold: LogFold, contest: str, stored: Hash, page: HashPage) -> Iterator[Difference]:
    expected_value = stored.expected_value(fold, contest)
    for field, value in page.rows:
        log, view = expected_value(field), stored.decode(value)
        if log != view:
            yield Difference(fold.partition, stored.label(field), str(log), str(view), contest)


def missing_fields(
    fold: LogFold, contest: str, stored: Hash, expected: set[bytes], seen: set[bytes]
) -> Iterator[Difference]:
    """Yield fields that the fold expects at the first and at the last page, and that no page has."""
    expected_value = stored.expected_value(fold, contest)
    for field in sorted(expected - seen):
        log = expected_value(field)
        if log is not None:
            yield Difference(fold.partition, stored.label(field), str(log), "nothing", contest)


def _names(fold: LogFold, contest: str) -> Iterator[bytes]:
    return (str(index).encode() for index in fold.indexes.get(contest, {}).values())


def _name(fold: LogFold, contest: str, field: bytes) -> str | None:
    names = fold.names.get(contest, [])
    index = int(field)
    return names[index - 1] if 0 < index <= len(names) else None


def _vote_fields(of: Callable[[int, int, FoldedVote], bool]) -> Callable[[LogFold, str], Iterator[bytes]]:
    """Return a function that yields the fields (voter and vote id) of the votes for which `of` is true.

    `of` takes the vote's index among the voter's votes, their number, and the vote.
    """

    def fields(fold: LogFold, contest: str) -> Iterator[bytes]:
        for voter, standing in tally_of(fold, contest).voters.items():
            size = len(standing.votes)
            for at, vote in enumerate(standing.votes.values()):
                if of(at, size, vote):
                    yield raw(voter) + digest(vote.cast.vote_id)

    return fields


def _vote(fold: LogFold, contest: str, field: bytes) -> tuple[int, int, FoldedVote] | None:
    voter = text(field[:-DIGEST_SIZE])
    found = fold.vote(contest, voter, field[-DIGEST_SIZE:])
    if found is None:
        return None
    at, vote = found
    return at, len(tally_of(fold, contest).voters[voter].votes), vote


def _is_spilled(at: int, size: int, _: FoldedVote) -> bool:
    return at < size - INLINE


def _spilled(fold: LogFold, contest: str, field: bytes) -> Any:
    found = _vote(fold, contest, field)
    if found is None or not _is_spilled(*found):
        return None
    return read_record(record_of(found[2], index_of(fold, contest, found[2])))


def _details(fold: LogFold, contest: str, field: bytes) -> Any:
    found = _vote(fold, contest, field)
    if found is None or not has_details(found[2]):
        return None
    vote, indexes = found[2], fold.indexes[contest]
    choices: Any = False
    if vote.cast.form == FORMS[2]:
        choices = [part for name, votes in vote.cast.choices for part in (indexes[name], votes)]
    rating: Any = False
    if vote.cast.rating is not None:
        subs = vote.cast.rating.sub_ratings
        rating = [vote.cast.rating.value, [part for name, value in subs for part in (name.encode(), value)]]
    return [vote.epoch, choices, rating]


def _voids(fold: LogFold, contest: str, field: bytes) -> Any:
    found = _vote(fold, contest, field)
    return [its.void.encode() for its in found[2].voids] if found is not None and found[2].voids else None


def _waiting_fields(fold: LogFold, contest: str) -> Iterator[bytes]:
    tally = tally_of(fold, contest)
    yield from (raw(voter) + digest(vote_id) for voter, vote_id in tally.waiting)
    yield from (raw(voter) + digest(vote_id) + VOID_MARK for voter, vote_id in tally.waiting_voids)


def _waiting(fold: LogFold, contest: str) -> Callable[[bytes], Any]:
    tally = tally_of(fold, contest)
    removals = {raw(voter) + digest(vote_id): kept for (voter, vote_id), kept in tally.waiting.items()}
    voids = {
        raw(voter) + digest(vote_id) + VOID_MARK: [
            [offset, int(isinstance(event, VoteRestored)), event.void.encode()] for event, offset in kept
        ]
        for (voter, vote_id), kept in tally.waiting_voids.items()
    }

    def look(field: bytes) -> Any:
        if field in voids:
            return voids[field]
        if field not in removals:
            return None
        removal, offset = removals[field]
        source = SOURCES.index(removal.source)
        return [offset, int(removal.anonymous), raw(removal.content), source, removal.removed_at]

    return look


def _report_fields(fold: LogFold, contest: str) -> Iterator[bytes]:
    for source, kept in tally_of(fold, contest).sources.items():
        for report_id in kept.reports:
            yield f"{source}\0{report_id}".encode()


def _report(fold: LogFold, contest: str, field: bytes) -> Any:
    source, _, report_id = field.decode().partition("\0")
    kept = tally_of(fold, contest).sources.get(source)
    report = kept.reports.get(report_id) if kept is not None else None
    if report is None:
        return None
    return [raw(report.content), report.offset, int(report.late), [mapped.encode() for mapped in report.held]]


def _past_fields(fold: LogFold, contest: str) -> Iterator[bytes]:
    for subject, minutes in fold.minutes.of(contest).items():
        yield from (field_of(Moment(subject, minute)) for minute in sorted(minutes)[:-1])


def _past(fold: LogFold, contest: str) -> Callable[[bytes], Any]:
    past = fold.minutes.of(contest)

    def look(field: bytes) -> Any:
        subject, minute = moment_of(field)
        minutes = past.get(subject, {})
        return minutes.get(minute) if minute < max(minutes, default=0) else None

    return look


def _row_fields(fold: LogFold, contest: str) -> Iterator[bytes]:
    return (name.encode() for name in fold.indexes.get(contest, {}))


def _row_changed(fold: LogFold, contest: str) -> Callable[[bytes], Any]:
    past, indexes = fold.minutes.of(contest), fold.indexes.get(contest, {})

    def look(field: bytes) -> Any:
        if not field:
            return [tally_of(fold, contest).last_offset]
        index = indexes.get(field.decode())
        return None if index is None else [max(past.get(index, {}), default=-1)]

    return look


def _source_fields(fold: LogFold, contest: str) -> Iterator[bytes]:
    return (name.encode() for name in tally_of(fold, contest).sources)


def _source_stored(fold: LogFold, contest: str) -> Callable[[bytes], Any]:
    past = fold.minutes.of(contest)

    def look(field: bytes) -> Any:
        minutes = past.get(field.decode(), {})
        return minutes[max(minutes)] if minutes else None

    return look


def _figures_fields(fold: LogFold, contest: str) -> Iterator[bytes]:
    for source, kept in tally_of(fold, contest).sources.items():
        yield from (f"{source}\0{mapped_id}".encode() for mapped_id in kept.figures)


def _figures_stored(fold: LogFold, contest: str) -> Callable[[bytes], Any]:
    past = fold.minutes.of(contest)

    def look(field: bytes) -> Any:
        source, _, mapped_id = field.decode().partition("\0")
        minutes = past.get((source, mapped_id), {})
        return minutes[max(minutes)] if minutes else None

    return look


def _release_fields(fold: LogFold, contest: str) -> Iterator[bytes]:
    for source, minutes in fold.minutes.releases[contest].items():
        yield from (f"{source}\0{number}".encode() for number in range(1, len(minutes) + 1))


def _release(fold: LogFold, contest: str, field: bytes) -> int | None:
    source, _, number = field.decode().partition("\0")
    minutes = fold.minutes.releases[contest].get(source, [])
    return minutes[int(number) - 1] if int(number) <= len(minutes) else None


def _moment(field: bytes) -> str:
    subject, minute = moment_of(field)
    match subject:
        case str():
            of = f"source {subject}"
        case source, mapped_id:
            of = f"source {source}: id {mapped_id}"
        case _:
            of = f"participant number {subject}" if subject else "all"
    return f"{of} at the end of {timestamp((minute + 1) * 60_000_000)}"


def _each(look: Callable[[LogFold, str, bytes], Any]) -> Callable[[LogFold, str], Callable[[bytes], Any]]:
    return lambda fold, contest: partial(look, fold, contest)


def _of_vote(what: str) -> Callable[[bytes], str]:
    return lambda field: f"voter {text(field[:-DIGEST_SIZE])}: {what}"


HASHES: Final = (
    Hash("names", _names, _each(_name), bytes.decode, lambda field: f"participant number {field.decode()}"),
    Hash("spill", _vote_fields(_is_spilled), _each(_spilled), read_record, _of_vote("older vote id")),
    Hash(
        "details",
        _vote_fields(lambda _, __, vote: has_details(vote)),
        _each(_details),
        unpack,
        _of_vote("choices, rating and period of a vote"),
    ),
    Hash(
        "voids",
        _vote_fields(lambda _, __, vote: bool(vote.voids)),
        _each(_voids),
        unpack,
        _of_vote("operations that voided a vote"),
    ),
    Hash("waiting", _waiting_fields, _waiting, unpack, _of_vote("change that waits for a reopening")),
    Hash(
        "reports",
        _report_fields,
        _each(_report),
        unpack,
        lambda field: f"report {field.decode().replace(chr(0), '/')}",
    ),
    Hash("minutes", _past_fields, _past, past_of, _moment),
    Hash(
        "counts",
        _row_fields,
        _row_changed,
        lambda value: unpack(value)[9:10],
        lambda field: f"participant {field.decode()}: minute of the last change" if field else "last change",
    ),
    Hash(
        "sources",
        _source_fields,
        _source_stored,
        lambda value: source_row(unpack(value)),
        lambda field: f"source {field.decode()}: last change, number of ids, of those held, and of releases",
    ),
    Hash(
        "figures",
        _figures_fields,
        _figures_stored,
        lambda value: source_figures(unpack(value)),
        lambda field: f"source {field.decode().replace(chr(0), ': id ')}: figures, and minute of the last change",
    ),
    Hash(
        "releases",
        _release_fields,
        _each(_release),
        int,
        lambda field: f"source {field.decode().replace(chr(0), ': release ')}",
    ),
)
