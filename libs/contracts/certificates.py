"""The certificate of a sealed contest: its result, and the hashes of the log that it was computed from.

It is JSON in one canonical form (RFC 8785), so each computation for the same closing gives the same bytes. Its
form, hashes and rules are in `deploy/guides/certificates.md`. It names no voter, and a vote's leaf does not reveal
the vote's participant.
"""

from hashlib import sha256
from typing import Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict

FORMAT: Final = 1


class CertificatePart(BaseModel):
    """Base of the parts: times are microseconds since 1970 UTC, hashes are in hex."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class Votes(CertificatePart):
    count: int
    unique_voter_count: int
    anonymous_voter_count: int


class CertifiedSubRating(CertificatePart):
    sub_rating_id: str
    count: int
    total: int


class Ratings(CertificatePart):
    """Number of counted ratings, and the sum of their values in millionths."""

    count: int
    total: int
    sub_ratings: list[CertifiedSubRating]


class SourceVotes(Votes):
    """Votes of one source for a participant; of an external source for each of its own ids."""

    source: str
    mapped_id: str | None


class CertifiedSource(Votes):
    source: str
    is_in_total: bool


class ParticipantResult(Votes):
    """One participant's result.

    `rank` follows `count`, in rating contests the average rounded to millionths, then `count`; ties share it.
    `sources` are in the order of their names and ids.
    """

    participant_key: str
    rank: int
    sources: list[SourceVotes]
    rating: Ratings | None


class CertifiedResult(Votes):
    """Result like `libs.results.contest_results.Results`: approved participants, ordered by key."""

    contest_type: str
    sources: list[CertifiedSource]
    participants: list[ParticipantResult]
    rating: Ratings | None


class RegisteredSource(CertificatePart):
    """An external source as registered at the closing. `mapping` pairs its ids with participant keys, by id."""

    source: str
    title: str
    is_in_total: bool
    mode: str
    retired: bool
    registered: int
    mapping: list[tuple[str, str]]


class Decision(CertificatePart):
    """Position of the closing in the catalogue's log."""

    account: str
    log_id: str
    offset: int


class SourceMark(CertificatePart):
    source: str
    mark: int


class SealedPartition(CertificatePart):
    """One partition of the votes log, numbered through all its topics.

    `mark` is the offset of the contest's close marker, `sources` those of the sources. `lost` is the number of the
    contest's votes that had been accepted, and that the log lost before the mark: they are in no count.
    """

    partition: int
    log_id: str
    mark: int
    sources: list[SourceMark]
    lost: int
    leaves: int
    root: str


class NamedParticipant(CertificatePart):
    """A participant at the closing. `title` is "" without one, null if the titles did not fit into the record."""

    participant_key: str
    status: str
    title: str | None


class Certificate(CertificatePart):
    """Certificate of closing number `seq` of a contest that ended at `end`.

    `title` and `participants`, in running order, are those of the closing. What is corrected later
    does not change them.
    """

    format: Literal[1]
    contest_key: str
    title: str
    participants: list[NamedParticipant]
    seq: int
    end: int
    decision: Decision
    sources: list[RegisteredSource]
    partitions: list[SealedPartition]
    result: CertifiedResult
    sha256: str

    @property
    def is_whole(self) -> bool:
        """Return whether `sha256` matches the other members."""
        return self.sha256 == digest(self)

    def canonical(self) -> bytes:
        """Return the certificate as stored."""
        return _canonical(self.model_dump())


class Proof(CertificatePart):
    """The leaf at `index` of a partition's tree; `path` starts at the bottom, `certificate` is the certificate's
    `sha256`.
    """

    format: Literal[1]
    contest_key: str
    seq: int
    certificate: str
    partition: int
    index: int
    offset: int
    became: str
    receipt: str
    value_sha256: str
    path: list[str]


def stamped(certificate: Certificate) -> Certificate:
    """Return the certificate with its `sha256`."""
    return certificate.model_copy(update={"sha256": digest(certificate)})


def digest(certificate: Certificate) -> str:
    return sha256(_canonical(certificate.model_dump(exclude={"sha256"}))).hexdigest()


def differences(given: Certificate, computed: Certificate) -> list[str]:
    """Return the differing members, one line for each, by JSON pointer."""
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
