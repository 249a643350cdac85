"""A vote's record in a voter's ledger, as bytes of one of eight forms (`votes/02_vote_records.lua`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from libs.tally.voter_ledger import FoldedVote
from libs.views.votes.serialization import SOURCES, digest, raw, text, unlimited

DIGEST_SIZE: Final = 12
FORM: Final = 32
"""Factor of the record's form in its first byte, above its flags."""


def _sizes(form: int) -> tuple[int, ...]:
    """Return the sizes of all members of a record: short choices and limits take a byte each."""
    choice, left, next_at, epoch = (
        (3 if form & 1 else 1),
        (4 if form & 2 else 1),
        *((7, 4) if form & 4 else (0, 0)),
    )
    return 1, DIGEST_SIZE, 8, 7, 5, choice, choice, left, left, next_at, epoch


SIZES: Final = tuple(_sizes(form) for form in range(8))


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One folded vote id, decoded from its bytes. `participant` is an index; `epoch` as of `FoldedVote`."""

    digest: bytes
    content: str
    accepted_at: int
    offset: int
    participant: int
    count: int
    source: str
    status: int
    is_detailed: bool
    remaining_participant: int
    remaining_contest: int
    next_free_vote_at: int
    epoch: int


def has_details(vote: FoldedVote) -> bool:
    """Return whether the ledger stores details besides the record: choices or rating."""
    return vote.cast.form != "plain"


def record_of(vote: FoldedVote, index: int) -> bytes:
    """Encode a folded vote as the ledger stores it; `index` is its participant's in this contest."""
    cast = vote.cast
    count = 0 if cast.form == "ballot" or not cast.choices else cast.choices[0][1]
    choice = index if count else 0, count
    left = unlimited(cast.remaining_participant), unlimited(cast.remaining_contest)
    next_at = cast.next_free_vote_at or 0
    form = (max(choice) > 0xFF) + 2 * (max(left) > 0x7F) + 4 * (next_at > 0 or vote.epoch > 0)
    flags = SOURCES.index(cast.source) + 2 * vote.status + 16 * has_details(vote) + FORM * form
    numbers = cast.accepted_at, vote.offset, *choice, *left, next_at, vote.epoch
    encoded = [
        number.to_bytes(size, "big", signed=number < 0)
        for number, size in zip(numbers, SIZES[form][3:], strict=True)
    ]
    return b"".join((flags.to_bytes(1, "big"), digest(cast.vote_id), raw(cast.content), *encoded))


def read_record(record: bytes) -> StoredRecord:
    """Decode the record at the beginning of some bytes."""
    at = 0
    fields: list[bytes] = []
    for size in SIZES[record[0] // FORM]:
        fields.append(record[at : at + size])
        at += size
    flags = record[0] % FORM
    return StoredRecord(
        digest=fields[1],
        content=text(fields[2]),
        accepted_at=int.from_bytes(fields[3], "big"),
        offset=int.from_bytes(fields[4], "big"),
        participant=int.from_bytes(fields[5], "big"),
        count=int.from_bytes(fields[6], "big"),
        source=SOURCES[flags % 2],
        status=flags // 2 % 8,
        is_detailed=flags >= 16,
        remaining_participant=int.from_bytes(fields[7], "big", signed=True),
        remaining_contest=int.from_bytes(fields[8], "big", signed=True),
        next_free_vote_at=int.from_bytes(fields[9], "big"),
        epoch=int.from_bytes(fields[10], "big"),
    )


def record_size(record: bytes) -> int:
    """Return the size of the record at the beginning of some bytes."""
    return sum(SIZES[record[0] // FORM])


def split_records(records: bytes) -> Iterator[bytes]:
    """Yield records that are stored one after the other."""
    while records:
        size = record_size(records)
        yield records[:size]
        records = records[size:]
