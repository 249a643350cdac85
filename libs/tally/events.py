"""What happened, in the past tense: the records of the votes log.

An event carries all that it was judged by, so that the fold reads no clock and no other topic. Times are
microseconds since 1970 UTC; -1 in a limit means unlimited. `voter` and `address` are pseudonyms, never the ids
themselves. A class never changes its meaning: a new shape is a new version with a type name of its own, and the
old one moves to `libs.contracts.upcasters`, which says how.
"""

from dataclasses import dataclass
from typing import Literal

Source = Literal["c-free", "c-paid"]
Platform = Literal["ios", "android", "web"]
Form = Literal["plain", "rating", "ballot"]
"""A vote as such; a rating of one participant; a ballot that puts participants in order."""
Choices = tuple[tuple[str, int], ...]
"""(participant key, votes) pairs; one pair but for a ballot."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Names who caused an event: for the audit, never for a rule.

    By `kind`, `name` and `origin` are: of a `key` its id, of an `upload_url` the file's key, and the caller's
    address as far as it is kept; of a `command` the command, and the system's user@host; of a `process` its name
    and host.
    """

    kind: str
    name: str
    origin: str = ""


@dataclass(frozen=True, slots=True)
class LogCreated:
    """The first record of every partition: its random id tells this log from a recreated one.

    In the first partition of the catalogue it also records the deployment that the log belongs to: the id of its
    object store, and the number of partitions of its votes. Both are None elsewhere.
    """

    log_id: str
    store_id: str | None = None
    partitions: int | None = None
    type: Literal["LogCreated"] = "LogCreated"


@dataclass(frozen=True, slots=True)
class Rating:
    """Millionths, so that sums are exact; `sub_ratings` are (id, value) pairs in the order of their ids."""

    value: int
    sub_ratings: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class VoteCast:
    """A vote was accepted: reserved under `incarnation` of its partition's gate, judged by `config`.

    A ballot is one vote against `max_contest`, and replaces the voter's former one; a rating replaces the former
    one of that participant where `max_participant` is 1. A replacement uses no allowance.
    """

    contest: str
    voter: str
    anonymous: bool
    vote_id: str
    content: str
    """Hash of the request's content: the same id with another one is a misuse, not a repeat."""
    source: Source
    choices: Choices
    accepted_at: int
    incarnation: int
    config: int
    """The contest's configuration version that the vote was judged by: an offset of the catalogue log."""
    max_participant: int
    max_contest: int
    epoch: int
    """Number of the voter's allowance period (renewals count it up)."""
    remaining_participant: int | None
    remaining_contest: int | None
    next_free_vote_at: int | None
    """When the voter's free allowance starts afresh; None of a paid vote, and where it does not."""
    receipt: str
    form: Form = "plain"
    rating: Rating | None = None
    platform: Platform | None = None
    address: str | None = None
    type: Literal["VoteCast"] = "VoteCast"

    @property
    def weight(self) -> int:
        """Votes that it is worth against the contest's limit."""
        return weight(self.form, self.choices)

    @property
    def slot(self) -> str | None:
        """What it may replace, or be replaced in: a participant's rating, the contest's ballot (""), or None."""
        return slot(self.form, self.choices)

    @property
    def replaces(self) -> bool:
        """Whether it takes the place of the voter's former vote of its slot."""
        return replaces(self.form, self.max_participant)


@dataclass(frozen=True, slots=True)
class VoteRemoved:
    """A vote was taken back by its voter, or with its purchase; its allowance is free again.

    The id stays used; one that never came is used up by this, so that no late attempt can cast it any more. A
    removal behind the contest's close waits for a reopening. `content` and `source` are those of the vote.
    """

    contest: str
    voter: str
    anonymous: bool
    vote_id: str
    content: str
    source: Source
    incarnation: int
    removed_at: int
    reason: Literal["voter", "refund"] = "voter"
    address: str | None = None
    """The address whose limit has room again, for `participants`."""
    participants: tuple[str, ...] = ()
    actor: Actor | None = None
    """Of a removal by the voter the API key, without `origin`: this log has addresses as pseudonyms only."""
    type: Literal["VoteRemoved"] = "VoteRemoved"


@dataclass(frozen=True, slots=True)
class VoteVoided:
    """An operator took a vote out of the count: it counts no more, and gives no allowance back.

    Behind the contest's close it waits for a reopening. `void` names the operation: it may void many, each once.
    """

    contest: str
    voter: str
    vote_id: str
    void: str
    voided_at: int
    reason: str = ""
    type: Literal["VoteVoided"] = "VoteVoided"


@dataclass(frozen=True, slots=True)
class VoteRestored:
    """A vote that `void` took out counts again, unless it was replaced or removed; waits as VoteVoided does."""

    contest: str
    voter: str
    vote_id: str
    void: str
    restored_at: int
    type: Literal["VoteRestored"] = "VoteRestored"


@dataclass(frozen=True, slots=True)
class SourceReported:
    """An external source reported figures, by its own ids of participants; the same `report_id` counts once.

    Cumulative figures replace the former ones of the same id, in log order; deltas are added. What an id means is
    not said here: readers apply the mapping that the contest's configuration holds.
    """

    contest: str
    source: str
    report_id: str
    content: str
    """Hash of the report's content."""
    mode: Literal["cumulative", "delta"]
    allow_decrease: bool
    reported_at: int | None
    counts: tuple[tuple[str, int, int, int], ...]
    """(mapped id, votes, distinct voters, anonymous ones of them)"""
    actor: Actor | None = None
    type: Literal["SourceReported"] = "SourceReported"


@dataclass(frozen=True, slots=True)
class ContestClosed:
    """The marker behind which nothing of this partition changes the contest's result.

    Without a `source` it ends the votes, with one that external source. `seq` numbers the contest's closings; the
    first marker of each counts.
    """

    contest: str
    seq: int
    source: str | None = None
    type: Literal["ContestClosed"] = "ContestClosed"


@dataclass(frozen=True, slots=True)
class ContestReopened:
    """Voids the markers up to `seq`, for good; removals that waited take effect, late votes stay late.

    What waited takes effect in the order of the log, at most `at_most` of it with each of these (None: all). The
    markers are void from the one on after which nothing waits.
    """

    contest: str
    seq: int
    at_most: int | None = None
    type: Literal["ContestReopened"] = "ContestReopened"


@dataclass(frozen=True, slots=True)
class Fence:
    """From here on only votes reserved under `incarnation` count; older ones still on their way never will.

    It holds only directly behind the fence `after` (None: behind any lower one), so that one which a Valkey asked
    for and forgot, landing late, cannot fence off what a later one admits, whatever their clocks say. `run` is the
    server run that asked for it: no other one opens its gate on it.
    """

    incarnation: int
    after: int | None = None
    run: str | None = None
    type: Literal["Fence.2"] = "Fence.2"


Event = (
    LogCreated
    | VoteCast
    | VoteRemoved
    | VoteVoided
    | VoteRestored
    | SourceReported
    | ContestClosed
    | ContestReopened
    | Fence
)


def weight(form: Form, choices: Choices) -> int:
    """Votes against a contest's limit: a ballot is one, whatever its positions are worth."""
    return 1 if form == "ballot" else sum(count for _, count in choices)


def address_votes(form: Form, choices: Choices) -> Choices:
    """Votes against the limit of an address, by participant: a ballot is one for each, as it is in the contest."""
    return tuple((participant, 1) for participant, _ in choices) if form == "ballot" else choices


def slot(form: Form, choices: Choices) -> str | None:
    """See `VoteCast.slot`."""
    if form == "plain":
        return None
    return "" if form == "ballot" else choices[0][0]


def replaces(form: Form, max_participant: int) -> bool:
    """See `VoteCast.replaces`."""
    return form == "ballot" or (form == "rating" and max_participant == 1)
