"""The certificate of a sealed contest: its result, and what of the log it was computed from.

It is JSON in one canonical form (RFC 8785: no white space, the names of members sorted; all numbers are whole). So
the same closing gives the same bytes, whoever computes it, whenever. `sha256` is the SHA-256 of this form of all
other members. To check a certificate without this program:

1. Take `sha256` out, write the rest in canonical form, and hash it.
2. In the catalogue's log, in the partition of `decision`, the record at its offset is the ContestClosing that says
   who was approved, and how the external sources were registered.
3. In each partition of the votes' log, take the records of the contest before `mark`, and those of an external
   source that is listed there before the source's own mark instead; what cannot be folded (the quarantine) is left
   out. Each is a leaf: SHA-256(0x00, text) with the text

       <offset> <became> <receipt> <SHA-256 of the record, in hex>

   parted by single spaces. `became` and `receipt` are "-" but for a vote that the fold took: then what the vote
   became by the marks (`counted`, `unapproved`, `removed`, `replaced`, `voided`, `overruled`, `late`), and the
   receipt that its voter has. `root` is the root of the Merkle tree over the leaves (`libs.certificates.merkle`).
4. `result` is what the fold of those records (`libs.tally.fold`) adds up to (`libs.results`).

Nobody is named in it, and the leaf of a vote tells nobody for whom it was.
"""

from hashlib import sha256
from typing import Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict

FORMAT: Final = 1


class CertificatePart(BaseModel):
    """Times are microseconds since 1970 UTC, hashes are in hex."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Votes(CertificatePart):
    count: int
    unique_voter_count: int
    anonymous_voter_count: int


class SubRating(CertificatePart):
    sub_rating_id: str
    count: int
    total: int


class Ratings(CertificatePart):
    """How many ratings count, and the sum of their values in millionths."""

    count: int
    total: int
    sub_ratings: list[SubRating]


class SourceVotes(Votes):
    """What a source gave a participant; an external one by each of its own ids."""

    source: str
    mapped_id: str | None


class SourceTotal(Votes):
    source: str
    is_in_total: bool


class ParticipantResult(Votes):
    """`rank` goes by `count`; equal ones share it. `sources` are in the order of their names and ids."""

    participant_key: str
    rank: int
    sources: list[SourceVotes]
    rating: Ratings | None


class Result(Votes):
    """As `libs.results.results.Results`: of the approved participants, in the order of their keys."""

    contest_type: str
    sources: list[SourceTotal]
    participants: list[ParticipantResult]
    rating: Ratings | None


class RegisteredSource(CertificatePart):
    """An external source as the closing found it. `mapping` pairs its ids with keys of participants, by id."""

    source: str
    title: str
    is_in_total: bool
    mode: str
    retired: bool
    registered: int
    mapping: list[tuple[str, str]]


class Decision(CertificatePart):
    """Where in the catalogue's log the contest was closed."""

    account: str
    log_id: str
    offset: int


class SourceMark(CertificatePart):
    source: str
    mark: int


class SealedPartition(CertificatePart):
    """One partition of the votes' log: `mark` is the offset of the contest's mark, `sources` those of sources."""

    partition: int
    log_id: str
    mark: int
    sources: list[SourceMark]
    leaves: int
    root: str


class Certificate(CertificatePart):
    """The closing number `seq` of a contest that ended at `end`."""

    format: Literal[1]
    contest_key: str
    seq: int
    end: int
    decision: Decision
    sources: list[RegisteredSource]
    partitions: list[SealedPartition]
    result: Result
    sha256: str

    @property
    def is_whole(self) -> bool:
        """Whether `sha256` is that of the rest."""
        return self.sha256 == digest(self)

    def canonical(self) -> bytes:
        """The certificate as it is kept."""
        return _canonical(self.model_dump())


def stamped(certificate: Certificate) -> Certificate:
    """The certificate with its `sha256`."""
    return certificate.model_copy(update={"sha256": digest(certificate)})


def digest(certificate: Certificate) -> str:
    return sha256(_canonical(certificate.model_dump(exclude={"sha256"}))).hexdigest()


def differences(given: Certificate, computed: Certificate) -> list[str]:
    """What does not fit, one line a member, by its JSON pointer."""
    return list(_differences("", given.model_dump(), computed.model_dump()))


def _differences(where: str, given: Any, computed: Any) -> list[str]:
    if isinstance(given, dict) and isinstance(computed, dict):
        names = sorted(given.keys() | computed.keys())
        return [
            line for name in names for line in _differences(f"{where}/{name}", given.get(name), computed.get(name))
        ]
    if isinstance(given, list) and isinstance(computed, list) and len(given) == len(computed):
        pairs = enumerate(zip(given, computed, strict=True))
        return [line for at, (one, other) in pairs for line in _differences(f"{where}/{at}", one, other)]
    if given == computed:
        return []
    return [f"{where}: certificate says {_text(given)}, log says {_text(computed)}"]


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
