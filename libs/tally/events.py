"""Events of the votes log, named in the past tense.

An event holds all inputs of the decision about it, so the fold reads no clock and no other topic. Times are
microseconds since 1970 UTC; a limit of -1 is unlimited. `voter` and `address` are pseudonyms, never the ids
themselves. A class never changes its meaning: a new schema is a new version with its own type name, and the
old one moves to `libs.contracts.codec`.
"""

from dataclasses import dataclass
from typing import Literal

Source = Literal["c-free", "c-paid"]
Platform = Literal["ios", "android", "web"]
Form = Literal["plain", "rating", "ballot"]
"""A plain vote; a rating of one participant; a ballot that ranks participants."""
Choices = tuple[tuple[str, int], ...]
"""(participant key, votes) pairs; only a ballot has more than one."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The cause of an event: for audits only, no rule reads it."""

    kind: str
    """`key`, `upload_url`, `command` or `process`."""
    name: str
    """Id of the API key, key of the file, or name of the command or process."""
    origin: str = ""
    """Stored part of the address of a `key` or `upload_url`, user@host of a `command`, host of a `process`."""


@dataclass(frozen=True, slots=True)
class LogCreated:
    """The first record of every partition: its random id distinguishes this log from a recreated one.

    In the catalogue's first partition it also identifies the deployment by the id of its object store and the
    number of votes partitions that it began with. A later topic of the votes records its own number of partitions.
    Both are None elsewhere.
    """

    log_id: str
    store_id: str | None = None
    partitions: int | None = None
    type: Literal["LogCreated"] = "LogCreated"


@dataclass(frozen=True, slots=True)
class Rating:
    """A rating in millionths, so that sums are exact; `sub_ratings` are (id, value) pairs sorted by id."""

    value: int
    sub_ratings: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class VoteCast:
    """A vote was accepted: reserved under fence epoch `incarnation`, decided by configuration version `config`.

    A ballot uses one vote of `max_contest` and replaces the voter's previous one; a rating replaces the previous
    one of its participant if `max_participant` is 1. A replacement uses no allowance.
    """

    contest: str
    voter: str
    anonymous: bool
    vote_id: str
    content: str
    """Hash of the request's content: the same vote id with another hash is an error, not a retry."""
    source: Source
    choices: Choices
    accepted_at: int
    incarnation: int
    config: int
    """Version of the contest's configuration that admitted the vote: an offset of the catalogue log."""
    max_participant: int
    max_contest: int
    epoch: int
    """Number of the voter's allowance period; each renewal increments it."""
    remaining_participant: int | None
    remaining_contest: int | None
    next_free_vote_at: int | None
    """Time of the free allowance's next renewal; None for a paid vote or without renewal."""
    receipt: str
    form: Form = "plain"
    rating: Rating | None = None
    positions: tuple[tuple[str, str], ...] | None = None
    """A ballot's participants by position id, sorted by id: `choices` lack the ids. No fold reads them."""
    platform: Platform | None = None
    address: str | None = None
    type: Literal["VoteCast"] = "VoteCast"

    @property
    def weight(self) -> int:
        """Votes that it uses of the contest's limit."""
        return weight(self.form, self.choices)

    @property
    def slot(self) -> str | None:
        """Slot that holds one replaceable vote: a participant's rating, the contest's ballot (""), or None."""
        return slot(self.form, self.choices)

    @property
    def replaces(self) -> bool:
        """True if it replaces the voter's previous vote of its slot."""
        return replaces(self.form, self.max_participant)


@dataclass(frozen=True, slots=True)
class VoteRemoved:
    """A vote was removed by its voter, or by its purchase's refund; its allowance is free again.

    The vote id stays used. An id that was never cast is used up too, so a late attempt cannot cast it. A removal
    after the contest's close waits for a reopening. `content` and `source` are those of the vote.
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
    """The address whose votes for `participants` are given back."""
    participants: tuple[str, ...] = ()
    actor: Actor | None = None
    """The API key of a removal by the voter, without `origin`: this log holds addresses only as pseudonyms."""
    type: Literal["VoteRemoved"] = "VoteRemoved"


@dataclass(frozen=True, slots=True)
class VoteVoided:
    """An operator voided a vote: it no longer counts, and its allowance stays used.

    After the contest's close it waits for a reopening. `void` identifies the operation, which may void many votes,
    each once.
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
    """A vote voided by operation `void` counts again, unless replaced or removed; waits as `VoteVoided` does."""

    contest: str
    voter: str
    vote_id: str
    void: str
    restored_at: int
    type: Literal["VoteRestored"] = "VoteRestored"


@dataclass(frozen=True, slots=True)
class SourceReported:
    """An external source reported counts by its own participant ids; each `report_id` is folded once.

    Cumulative counts replace the previous ones of the same id, in log order; deltas are added. Readers map the
    source's ids to participants by the contest's configuration.
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
    """Close marker: later records of this partition do not change the contest's result.

    Without a `source` it closes the votes, otherwise that external source. `seq` numbers the contest's closings;
    the first marker of each number takes effect.
    """

    contest: str
    seq: int
    source: str | None = None
    type: Literal["ContestClosed"] = "ContestClosed"


@dataclass(frozen=True, slots=True)
class ContestReopened:
    """Cancels the close markers up to `seq` for good; waiting removals take effect, late votes stay late.

    Each such event applies at most `at_most` waiting changes (None: all), in log order. The markers are cancelled
    by the event that leaves none waiting.
    """

    contest: str
    seq: int
    at_most: int | None = None
    type: Literal["ContestReopened"] = "ContestReopened"


@dataclass(frozen=True, slots=True)
class Fence:
    """From here on only votes reserved under fence epoch `incarnation` count; older ones are rejected for good.

    A vote of a newer one counts: it was admitted after a fence that the log has lost since.

    It takes effect only if the current fence is `after` (None: any lower one). So a fence that Valkey requested
    and then lost cannot, appended late, reject votes admitted under a newer fence, whatever the clocks show. `run`
    is the Valkey server run that requested it; no other run opens its gate by it.
    """

    incarnation: int
    after: int | None = None
    run: str | None = None
    type: Literal["Fence.2"] = "Fence.2"


@dataclass(frozen=True, slots=True)
class LogLost:
    """The log lost records of this partition that had been acknowledged: offsets `first` to before `end`.

    Written after the loss was noticed at `noticed_at` (us), before the partition takes votes again; a repeated one
    with the same members means the same. `votes` names by contest how many votes a view had folded from these
    records, in a votes partition; `unnamed` is the number of those of further contests. It changes no count.
    """

    first: int
    end: int
    noticed_at: int
    votes: tuple[tuple[str, int], ...] = ()
    unnamed: int = 0
    type: Literal["LogLost"] = "LogLost"


VoteEvent = VoteCast | VoteRemoved | VoteVoided | VoteRestored
ContestEvent = VoteEvent | SourceReported | ContestClosed | ContestReopened
Event = LogCreated | LogLost | ContestEvent | Fence


def weight(form: Form, choices: Choices) -> int:
    """Return the votes used of a contest's limit: one for a ballot, whatever its positions are worth."""
    return 1 if form == "ballot" else sum(count for _, count in choices)


def address_votes(form: Form, choices: Choices) -> Choices:
    """Return the votes used of an address's limit by participant: a ballot uses one of each."""
    return tuple((participant, 1) for participant, _ in choices) if form == "ballot" else choices


def address_takers(voter: str, vote_id: str) -> tuple[str, str]:
    """Return the names in which a vote uses an address's limit: its own, or its voter's if it replaces another.

    A vote id is unique per voter only.
    """
    return f"{voter}/{vote_id}", voter


def slot(form: Form, choices: Choices) -> str | None:
    """Return the slot of a vote, see `VoteCast.slot`."""
    if form == "plain":
        return None
    return "" if form == "ballot" else choices[0][0]


def replaces(form: Form, max_participant: int) -> bool:
    """Return whether a vote replaces another one, see `VoteCast.replaces`."""
    return form == "ballot" or (form == "rating" and max_participant == 1)
