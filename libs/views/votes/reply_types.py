"""Arguments and results of the vote views: partitions, votes, voters, contests and external sources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from libs.contracts.log_records import Position
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.reservations import Stale
from libs.tally.voter_ledger import VoteStatus


class Doubt(NamedTuple):
    """Signs of doubt about a partition.

    `open`: its gate is. `is_sure`: the gate is closed, or the partition's clock is ahead of the server's. Else
    `oldest_pending` is when the oldest pending reservation was accepted (us), None if nothing is pending.
    """

    open: bool
    is_sure: bool
    oldest_pending: int | None


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Gate, position and open reservations of one partition. Times are microseconds since 1970 UTC.

    `now` is Valkey's clock. `clock` is the partition's, which timestamps admitted votes: it follows Valkey's, but
    never goes back while the gate is open. Its timestamps are unique, so one identifies the oldest reservation.
    """

    position: Position
    open: bool
    incarnation: int
    now: int
    fence: int
    pending: int
    oldest_pending: int | None
    fenced: int
    duplicates: int
    quarantined: int
    overruled: int
    clock: int
    same_run: bool = True
    """True if the server was not restarted since the gate was opened, so it has lost no data."""


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """Counts reported by an external source, by its own participant ids; `held` are decreases not yet permitted.

    `closed` is the number of its closing in force, `updated_ms` the append time of its latest report.
    """

    closed: int
    updated_ms: int
    figures: Mapping[str, VoteSums]
    held: Mapping[str, VoteSums]


class SourceRow(NamedTuple):
    """An external source as stored, without its figures.

    `closed` is a closing in force unless it was reopened; `minute` is that of the latest change. `ids` counts its
    ids, `held` those with held figures. Each of its `releases` puts all held figures in force.
    """

    closed: int
    updated_ms: int
    minute: int
    ids: int
    held: int
    releases: int


class SourceFigures(NamedTuple):
    """Stored figures of one id of an external source, last reported in `minute`.

    `held` figures are in force from the source's next release after `releases` on.
    """

    figures: VoteSums
    minute: int
    held: VoteSums | None = None
    releases: int = 0


class SourceSize(NamedTuple):
    """Size of an external source: its closing in force, the ids that it reported, and the number of new ids."""

    closed: int
    ids: int
    unknown: int


@dataclass(frozen=True, slots=True)
class ContestCounts:
    """One contest's counts in one partition, at `position`.

    `figures` is keyed by (participant or "" for the contest, source or "" for both); the count of both sources is
    the sum. `ratings` is keyed by participant or "". `changed` is the offset of the contest's latest change (-1:
    none), `swaps` the number of swaps of the view, `closed` the closing in force, `reopened` the latest one
    cancelled.
    """

    position: Position
    changed: int
    figures: Mapping[tuple[str, str], VoteSums]
    swaps: int = 0
    updated_ms: int | None = None
    ids: Mapping[VoteStatus, int] = field(default_factory=dict)
    closed: int = 0
    reopened: int = 0
    ratings: Mapping[str, RatingSums] = field(default_factory=dict)
    sources: Mapping[str, SourceCounts] = field(default_factory=dict)
    numbered: int = field(default=0, compare=False)
    """Number of the latest numbered change: of external figures, or of a participant after the first 100."""
    lineage: str = field(default="", compare=False)
    """Identifies the view in which `numbered` is valid; empty if nothing is numbered."""


class UsedVotes(NamedTuple):
    """Votes a voter has used, folded and pending; `participant` "" is the whole contest."""

    participant: str
    source: str
    epoch: int
    votes: int


@dataclass(frozen=True, slots=True)
class VoterAllowance:
    """Allowances used by a voter, as of `now` by the ledger's clock (us).

    `latest` is when the latest free vote was accepted (None: none), `epoch` its allowance period. A contest of
    another configuration than that in `config` is stale. Only while the gate `is_open` are all accepted votes
    included.
    """

    now: int
    epoch: int
    latest: int | None
    used: Sequence[UsedVotes]
    config: Stale
    is_open: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class ClosingState:
    """State of a contest's closing in one partition, at the offset `folded`.

    `sources` maps each external source with reports to its closing in force. `pending` is the number of
    reservations not folded (read in pages, some may be counted twice), `waiting` the number of votes with changes
    that wait for a reopening.
    """

    open: bool
    pending: int
    now: int
    closed: int
    reopened: int
    waiting: int
    folded: int
    sources: Mapping[str, int]
