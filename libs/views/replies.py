"""What the vote views are told, and answer: of a partition, a vote, a voter, a contest, a source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from libs.contracts.codec import Undecodable
from libs.contracts.log_records import Position
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.events import Choices, Event, Source
from libs.tally.reservations import Duplicate, Stale
from libs.tally.voter_ledger import VoteStatus


class FoldInput(NamedTuple):
    """One record: its event, or why it is none, its offset and the broker's append time."""

    event: Event | Undecodable
    offset: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Gate, position and doubt of one partition. Times are microseconds since 1970 UTC.

    `now` is by Valkey's clock; `clock` is the partition's own, which stamps what it admits: it goes with Valkey's,
    but never back while the gate is open. The oldest reservation is known by its moment, which no later one has.
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
    """The server still runs in which the gate was opened last, so it has lost nothing since."""


class VoteName(NamedTuple):
    """A vote id is one of its contest's and voter's."""

    contest: str
    voter: str
    vote_id: str


class Progress(NamedTuple):
    """How far a partition's fold has come, and whether its gate is open, under which incarnation."""

    position: Position
    open: bool
    incarnation: int

    def ended(self, incarnation: int) -> bool:
        """A fence ended `incarnation`: what was reserved under it and is not folded never counts."""
        return self.open and self.incarnation != incarnation


@dataclass(frozen=True, slots=True)
class VoteState:
    """What the ledger knows of one vote id: nothing (`pending` False, `status` None), pending, or folded.

    Folded, `content` and the first answer are those of the attempt that was recorded, which may be another one
    than the caller's: the same id, reserved anew after a fence, may stand for other content.
    """

    progress: Progress
    pending: bool = False
    status: VoteStatus | None = None
    accepted_at: int | None = None
    offset: int | None = None
    choices: Choices = ()
    source: str | None = None
    content: str | None = None
    remaining_participant: int | None = None
    remaining_contest: int | None = None
    next_free_vote_at: int | None = None
    removal_waits: bool = False
    """A removal came behind the contest's close: it takes effect if the contest is reopened."""

    @property
    def known(self) -> Duplicate | None:
        """The first answer, once the vote is folded."""
        if self.status is None or self.accepted_at is None or self.offset is None:
            return None
        left = self.remaining_participant, self.remaining_contest
        return Duplicate(self.accepted_at, *left, self.next_free_vote_at, self.offset, self.status, self.choices)


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """What an external source reported, by its own ids of participants; `held` went down and waits for permission.

    `closed` is the number of the closing in force for it, `updated_ms` when its last report was appended.
    """

    closed: int
    updated_ms: int
    figures: Mapping[str, VoteSums]
    held: Mapping[str, VoteSums]


class SourceRow(NamedTuple):
    """An external source as it is stored, but for its figures.

    `closed` is a closing that is in force unless it was reopened, `minute` that of the last change; of its `ids`,
    the figures of `held` wait. With each of its `releases` all of those that waited are taken over.
    """

    closed: int
    updated_ms: int
    minute: int
    ids: int
    held: int
    releases: int


class SourceFigures(NamedTuple):
    """What is stored of one id of an external source, last reported in `minute`.

    What is `held` counts from the next of the source's `releases` on.
    """

    figures: VoteSums
    minute: int
    held: VoteSums | None = None
    releases: int = 0


class SourceSize(NamedTuple):
    """The closing in force for an external source, the ids that it reported, and how many others are `unknown`."""

    closed: int
    ids: int
    unknown: int


@dataclass(frozen=True, slots=True)
class ContestCounts:
    """One contest's counts in one partition, at `position`.

    `figures` is keyed by (participant or "" for the contest, source or "" for both); the count of the latter is
    the sum of the former. `ratings` is keyed by participant or "". `changed` is the offset of the last event that
    changed anything of it (-1: none yet), `swaps` how often the view was exchanged for one folded anew, `closed`
    the closing in force, `reopened` the last one that was voided.
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
    reported: int = field(default=0, compare=False)
    """The number of the last change of what external sources reported."""


class UsedVotes(NamedTuple):
    """Votes a voter has used, folded and pending; `participant` "" is the whole contest."""

    participant: str
    source: str
    epoch: int
    votes: int


@dataclass(frozen=True, slots=True)
class VoterAllowance:
    """What a voter has used, as of `now` by the ledger's clock (us).

    `latest` is when the voter's latest free vote was accepted (None: there is none), `epoch` the allowance period
    that the voter had come to by then. A contest of another configuration than `config` names is `Stale` by it.
    Only while the gate `is_open` is nothing missing of what was accepted.
    """

    now: int
    epoch: int
    latest: int | None
    used: Sequence[UsedVotes]
    config: Stale
    is_open: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class Refund:
    """What is known of a paid vote that is to be taken back, whether or not it came."""

    anonymous: bool
    content: str
    source: Source


@dataclass(frozen=True, slots=True)
class ReportState:
    """What became of a report id of an external source; `offset` is None while it was not folded."""

    position: Position
    content: str | None = None
    offset: int | None = None
    late: bool = False
    held: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClosingState:
    """How a contest's closing stands in one partition. `sources` gives the closing in force of each that reported.

    `pending` counts what is reserved and not folded (read in parts, some may come twice); `in_force` is the
    configuration version that admits. `waiting` counts the votes with changes that wait for a reopening. All is as
    of the offset `folded`.
    """

    open: bool
    in_force: int | None
    pending: int
    now: int
    closed: int
    reopened: int
    waiting: int
    folded: int
    sources: Mapping[str, int]
