"""Compares a contest's Valkey hashes, beside its counts and voters, with the values that the fold expects."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as member
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from libs.audit.difference import Difference
from libs.audit.log_fold import LogFold
from libs.audit.timeline_fold import Past, Subject
from libs.tally.events import VoteRestored
from libs.tally.fold import ContestTally
from libs.tally.time import timestamp
from libs.tally.voter_ledger import FoldedVote, VoterLedger
from libs.views.counts_replies import source_figures, source_row
from libs.views.ledger_scan import (
    DIGEST_SIZE,
    INLINE,
    OWN,
    SHARE,
    SHARE_NUMBER_SIZE,
    HashPage,
    Share,
    has_details,
    read_record,
    read_share,
    read_spilled,
    record_of,
)
from libs.views.serialization import FORMS, SOURCES, digest, raw, text, unpack
from libs.views.timeline import Moment, field_of, moment_of, past_of

VOID_MARK: Final = b"V"
"""Ends the name of a field that holds a vote's waiting void or restore."""


class Fields(Protocol):
    """Fields of a hash with the values that a fold expects: a dict, or computed on demand for many fields."""

    def __iter__(self) -> Iterator[bytes]: ...

    def get(self, field: bytes, /) -> Any: ...


class Hash(NamedTuple):
    """A hash of the views: the fields that the fold `expected`, how to `decode` a stored value, and a field's
    `label` in the report.
    """

    name: str
    expected: Callable[[LogFold, str], Fields]
    decode: Callable[[bytes], Any]
    label: Callable[[bytes], str]


def tally_of(fold: LogFold, contest: str) -> ContestTally:
    return fold.tally.contests.get(contest, ContestTally())


def index_of(fold: LogFold, contest: str, vote: FoldedVote) -> int:
    """Return the participant index stored in the vote's record."""
    choices = vote.cast.choices
    return fold.indexes[contest][choices[0][0]] if choices else 0


def hash_differences(fold: LogFold, contest: str, stored: Hash, page: HashPage) -> Iterator[Difference]:
    expected = stored.expected(fold, contest)
    for field, value in page.rows:
        log, view = expected.get(field), stored.decode(value)
        if log != view:
            yield Difference(fold.partition, stored.label(field), str(log), str(view), contest)


def missing_fields(
    fold: LogFold, contest: str, stored: Hash, expected: set[bytes], seen: set[bytes]
) -> Iterator[Difference]:
    """Yield fields that the fold expects at the first and at the last page, and that no page has."""
    values = stored.expected(fold, contest)
    for field in sorted(expected - seen):
        log = values.get(field)
        if log is not None:
            yield Difference(fold.partition, stored.label(field), str(log), "nothing", contest)


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a vote among those of its voter: the number of later ones, and the id of the one before it."""

    later: int
    before: str | None


VoteValue = Callable[[LogFold, str, _Place, FoldedVote], Any]
"""Returns a vote's value in a hash, given its place; None if the hash lacks it."""


@dataclass(frozen=True, slots=True)
class _VoteFields:
    """A field for each vote that has a value: the voter and the digest of the vote id."""

    fold: LogFold
    contest: str
    value: VoteValue

    def __iter__(self) -> Iterator[bytes]:
        for voter, ledger in tally_of(self.fold, self.contest).voters.items():
            for at, vote in enumerate(ledger.votes.values(), 1):
                if self.value(self.fold, self.contest, _Place(len(ledger.votes) - at, None), vote) is not None:
                    yield raw(voter) + digest(vote.cast.vote_id)

    def get(self, field: bytes) -> Any:
        voter = text(field[:-DIGEST_SIZE])
        found = self.fold.vote(self.contest, voter, field[-DIGEST_SIZE:])
        if found is None:
            return None
        at, vote = found
        later = len(tally_of(self.fold, self.contest).voters[voter].votes) - at - 1
        place = _Place(later, self.fold.vote_id(self.contest, voter, at - 1))
        return self.value(self.fold, self.contest, place, vote)


def _votes(value: VoteValue) -> Callable[[LogFold, str], Fields]:
    return lambda fold, contest: _VoteFields(fold, contest, value)


def _spilled(fold: LogFold, contest: str, place: _Place, vote: FoldedVote) -> Any:
    if place.later < INLINE:
        return None
    before = b"" if place.before is None else digest(place.before)
    return read_record(record_of(vote, index_of(fold, contest, vote))), before


def _details(fold: LogFold, contest: str, _: _Place, vote: FoldedVote) -> Any:
    if not has_details(vote):
        return None
    indexes = fold.indexes[contest]
    choices: Any = False
    if vote.cast.form == FORMS[2]:
        choices = [part for name, votes in vote.cast.choices for part in (indexes[name], votes)]
    rating: Any = False
    if vote.cast.rating is not None:
        subs = vote.cast.rating.sub_ratings
        rating = [vote.cast.rating.value, [part for name, value in subs for part in (name.encode(), value)]]
    return [vote.epoch, choices, rating]


def _voids(_: LogFold, __: str, ___: _Place, vote: FoldedVote) -> Any:
    return [its.void.encode() for its in vote.voids] or None


def own_participants(standing: VoterLedger) -> set[str]:
    """Return the participants whose sums and slots the views store with the voter, not in shares."""
    return set(islice(dict.fromkeys(participant for participant, *_ in standing.used if participant), OWN))


@dataclass(frozen=True, slots=True, eq=False)
class _ExpectedShare:  # noqa: PLW1641 - only compared
    """A share as of a voter's allowance `epoch`; equal to a stored one, in which fewer periods may be merged."""

    epoch: int
    share: Share

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Share) and other.merged(self.epoch) == self.share

    def __str__(self) -> str:
        return str(self.share)


@dataclass(frozen=True, slots=True)
class _ShareFields:
    """A field for each share: the voter and the share's number."""

    fold: LogFold
    contest: str
    known: dict[str, dict[int, Share]] = member(default_factory=dict)

    def __iter__(self) -> Iterator[bytes]:
        for voter, standing in tally_of(self.fold, self.contest).voters.items():
            if len(standing.used) > OWN:
                for number in self._shares(standing):
                    yield raw(voter) + number.to_bytes(SHARE_NUMBER_SIZE, "big")

    def get(self, field: bytes) -> Any:
        voter = text(field[:-SHARE_NUMBER_SIZE])
        standing = tally_of(self.fold, self.contest).voters.get(voter)
        if standing is None:
            return None
        if voter not in self.known:
            self.known[voter] = self._shares(standing)
        share = self.known[voter].get(int.from_bytes(field[-SHARE_NUMBER_SIZE:], "big"))
        return None if share is None else _ExpectedShare(standing.epoch, share)

    def _shares(self, standing: VoterLedger) -> dict[int, Share]:
        own, indexes = {"", *own_participants(standing)}, self.fold.indexes.get(self.contest, {})
        shares = defaultdict[int, Share](lambda: Share({}, {}))
        for (participant, source, epoch), sums in standing.used.items():
            if participant not in own:
                index = indexes[participant]
                figures = sums.votes, sums.limit or 0, sums.active
                shares[(index - 1) // SHARE].used[index, source, epoch] = figures
        for (participant, source), vote_id in standing.slots.items():
            if participant not in own:
                index = indexes[participant]
                shares[(index - 1) // SHARE].slots[index, source] = digest(vote_id)
        return shares


def _names(fold: LogFold, contest: str) -> dict[bytes, str]:
    return {str(index).encode(): name for name, index in fold.indexes.get(contest, {}).items()}


def _waiting(fold: LogFold, contest: str) -> dict[bytes, Any]:
    tally = tally_of(fold, contest)
    removals = {
        raw(voter) + digest(vote_id): [
            offset, int(removal.anonymous), raw(removal.content), SOURCES.index(removal.source), removal.removed_at
        ]
        for (voter, vote_id), (removal, offset) in tally.waiting.items()
    }  # fmt: skip
    return removals | {
        raw(voter) + digest(vote_id) + VOID_MARK: [
            [offset, int(isinstance(event, VoteRestored)), event.void.encode()] for event, offset in kept
        ]
        for (voter, vote_id), kept in tally.waiting_voids.items()
    }


def _reports(fold: LogFold, contest: str) -> dict[bytes, Any]:
    return {
        f"{source}\0{report_id}".encode(): [
            raw(report.content), report.offset, int(report.late), [mapped.encode() for mapped in report.held]
        ]
        for source, kept in tally_of(fold, contest).sources.items()
        for report_id, report in kept.reports.items()
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _PastFields:
    """A field for each row and minute with a change, but for the last one, which is open."""

    past: Mapping[Subject, Mapping[int, Past]]

    def __iter__(self) -> Iterator[bytes]:
        for subject, minutes in self.past.items():
            yield from (field_of(Moment(subject, minute)) for minute in sorted(minutes)[:-1])

    def get(self, field: bytes) -> Any:
        subject, minute = moment_of(field)
        minutes = self.past.get(subject, {})
        return minutes.get(minute) if minute < max(minutes, default=0) else None


def _rows(fold: LogFold, contest: str) -> dict[bytes, list[int]]:
    past = fold.minutes.of(contest)
    rows = {
        name.encode(): [max(past.get(index, {}), default=-1)]
        for name, index in fold.indexes.get(contest, {}).items()
    }
    tally = fold.tally.contests.get(contest)
    return rows if tally is None or tally.last_offset < 0 else {b"": [tally.last_offset], **rows}


def _sources(fold: LogFold, contest: str) -> dict[bytes, Any]:
    past = fold.minutes.of(contest)
    return {name.encode(): _latest(past.get(name, {})) for name in tally_of(fold, contest).sources}


def _figures(fold: LogFold, contest: str) -> dict[bytes, Any]:
    past = fold.minutes.of(contest)
    return {
        f"{source}\0{mapped_id}".encode(): _latest(past.get((source, mapped_id), {}))
        for source, kept in tally_of(fold, contest).sources.items()
        for mapped_id in kept.figures
    }


def _latest(minutes: Mapping[int, Past]) -> Past | None:
    return minutes[max(minutes)] if minutes else None


def _releases(fold: LogFold, contest: str) -> dict[bytes, int]:
    return {
        f"{source}\0{number}".encode(): minute
        for source, minutes in fold.minutes.releases[contest].items()
        for number, minute in enumerate(minutes, 1)
    }


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


def _of_vote(what: str) -> Callable[[bytes], str]:
    return lambda field: f"voter {text(field[:-DIGEST_SIZE])}: {what}"


def _of_source(what: str) -> Callable[[bytes], str]:
    """Return the label of fields of a source, or of a source and something of it."""
    return lambda field: what.format(*field.decode().split("\0"))


HASHES: Final = (
    Hash("names", _names, bytes.decode, lambda field: f"participant number {field.decode()}"),
    Hash(
        "shares",
        _ShareFields,
        read_share,
        lambda field: f"voter {text(field[:-SHARE_NUMBER_SIZE])}: votes used for further participants",
    ),
    Hash("spill", _votes(_spilled), read_spilled, _of_vote("older vote id")),
    Hash("details", _votes(_details), unpack, _of_vote("choices, rating and period of a vote")),
    Hash("voids", _votes(_voids), unpack, _of_vote("operations that voided a vote")),
    Hash("waiting", _waiting, unpack, _of_vote("change that waits for a reopening")),
    Hash("reports", _reports, unpack, _of_source("report {}/{}")),
    Hash("minutes", lambda fold, contest: _PastFields(fold.minutes.of(contest)), past_of, _moment),
    Hash(
        "counts",
        _rows,
        lambda value: unpack(value)[9:10],
        lambda field: f"participant {field.decode()}: minute of the last change" if field else "last change",
    ),
    Hash(
        "sources",
        _sources,
        lambda value: source_row(unpack(value)),
        _of_source("source {}: last change, number of ids, of those held, and of releases"),
    ),
    Hash(
        "figures",
        _figures,
        lambda value: source_figures(unpack(value)),
        _of_source("source {}: id {}: figures, and minute of the last change"),
    ),
    Hash("releases", _releases, int, _of_source("source {}: release {}")),
)
