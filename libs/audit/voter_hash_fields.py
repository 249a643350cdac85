"""Valkey hashes of a contest's voters and votes, with the field values that a fold expects."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from dataclasses import field as member
from itertools import islice, zip_longest
from typing import Any, Final

from libs.audit.hash_fields import Fields, Hash, tally_of
from libs.audit.log_fold import LogFold
from libs.tally.voter_ledger import FoldedVote, VoterLedger
from libs.views.valkey.function_libraries import unpack
from libs.views.votes.ledger_scan import (
    INLINE,
    OWN,
    SHARE,
    SHARE_NUMBER_SIZE,
    Share,
    VoterRow,
    read_share,
    read_spilled,
    read_voter,
)
from libs.views.votes.serialization import FORMS, digest, raw, text
from libs.views.votes.vote_records import DIGEST_SIZE, has_details, read_record, record_of

MEMBERS: Final = {
    "spilled": "older vote ids",
    "last_spilled": "the latest of them",
    "used": "votes used, with their limit, and those that count",
    "anonymous": "anonymous",
    "epoch": "allowance period",
    "latest": "latest free vote",
    "slots": "votes that later ones replace",
}
"""Names in a report of a voter's members, beside the latest vote ids."""


def _index_of(fold: LogFold, contest: str, vote: FoldedVote) -> int:
    """Return the participant index stored in the vote's record."""
    choices = vote.cast.choices
    return fold.indexes[contest][choices[0][0]] if choices else 0


@dataclass(frozen=True, slots=True)
class _VoterFields:
    """A field for each voter, with the row and the ids of the latest votes."""

    fold: LogFold
    contest: str

    def __iter__(self) -> Iterator[bytes]:
        return map(raw, tally_of(self.fold, self.contest).voters)

    def get(self, field: bytes) -> Any:
        ledger = tally_of(self.fold, self.contest).voters.get(text(field))
        if ledger is None:
            return None
        votes, indexes = list(ledger.votes.values()), self.fold.indexes.get(self.contest, {})
        older, own = votes[:-INLINE], {"", *_own_participants(ledger)}
        return VoterRow(
            records=[record_of(vote, _index_of(self.fold, self.contest, vote)) for vote in votes[-INLINE:]],
            spilled=len(older),
            last_spilled=digest(older[-1].cast.vote_id) if older else b"",
            used={
                (indexes.get(participant, 0), source, epoch): (sums.votes, sums.limit or 0, sums.active)
                for (participant, source, epoch), sums in ledger.used.items()
                if participant in own
            },
            anonymous=ledger.anonymous,
            epoch=ledger.epoch,
            latest=ledger.latest,
            slots={
                (indexes.get(participant, 0), source): digest(vote_id)
                for (participant, source), vote_id in ledger.slots.items()
                if participant in own
            },
            names={digest(vote.cast.vote_id): vote.cast.vote_id for vote in votes},
        )


def _voter_members(log: VoterRow, view: VoterRow) -> Iterator[tuple[str, Any, Any]]:
    if log.records != view.records:
        for records in zip_longest(log.records, view.records, fillvalue=b""):
            expected, actual = (read_record(record) if record else None for record in records)
            digests = (record.digest for record in (expected, actual) if record is not None)
            yield f"vote id {log.names.get(next(digests), '?')}", expected, actual
    for name, label in MEMBERS.items():
        yield label, getattr(log, name), getattr(view, name)


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
    return replace(read_record(record_of(vote, _index_of(fold, contest, vote))), digest=b""), before


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
    return [choices, rating]


def _voids(_: LogFold, __: str, ___: _Place, vote: FoldedVote) -> Any:
    return [its.void.encode() for its in vote.voids] or None


def _own_participants(ledger: VoterLedger) -> set[str]:
    """Return the participants whose sums and slots the views store with the voter, not in shares."""
    return set(islice(dict.fromkeys(participant for participant, *_ in ledger.used if participant), OWN))


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
        for voter, ledger in tally_of(self.fold, self.contest).voters.items():
            if len(ledger.used) > OWN:
                for number in self._shares(ledger):
                    yield raw(voter) + number.to_bytes(SHARE_NUMBER_SIZE, "big")

    def get(self, field: bytes) -> Any:
        voter = text(field[:-SHARE_NUMBER_SIZE])
        ledger = tally_of(self.fold, self.contest).voters.get(voter)
        if ledger is None:
            return None
        if voter not in self.known:
            self.known[voter] = self._shares(ledger)
        share = self.known[voter].get(int.from_bytes(field[-SHARE_NUMBER_SIZE:], "big"))
        return None if share is None else _ExpectedShare(ledger.epoch, share)

    def _shares(self, ledger: VoterLedger) -> dict[int, Share]:
        own, indexes = {"", *_own_participants(ledger)}, self.fold.indexes.get(self.contest, {})
        shares = defaultdict[int, Share](lambda: Share({}, {}))
        for (participant, source, epoch), sums in ledger.used.items():
            if participant not in own:
                index = indexes[participant]
                figures = sums.votes, sums.limit or 0, sums.active
                shares[(index - 1) // SHARE].used[index, source, epoch] = figures
        for (participant, source), vote_id in ledger.slots.items():
            if participant not in own:
                index = indexes[participant]
                shares[(index - 1) // SHARE].slots[index, source] = digest(vote_id)
        return shares


def of_vote(what: str) -> Callable[[bytes], str]:
    return lambda field: f"voter {text(field[:-DIGEST_SIZE])}: {what}"


VOTER_HASHES: Final = (
    Hash("voters", _VoterFields, read_voter, lambda field: f"voter {text(field)}", _voter_members),
    Hash(
        "shares",
        _ShareFields,
        read_share,
        lambda field: f"voter {text(field[:-SHARE_NUMBER_SIZE])}: votes used for further participants",
    ),
    Hash("spill", _votes(_spilled), read_spilled, of_vote("older vote id")),
    Hash("details", _votes(_details), unpack, of_vote("choices and rating of a vote")),
    Hash("voids", _votes(_voids), unpack, of_vote("operations that voided a vote")),
)
