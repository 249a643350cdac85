"""What clients asked for, and what they were answered."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from libs.contracts.log_records import LogRecord
from libs.tally.errors import AppendUnknown, TallyError
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.voting.protocol.shared_steps import Accepted, Removed
from libs.voting.source_reports import SourceReport

Name = tuple[str, str, str]
"""Contest, voter and vote id."""
TRY_AGAIN: Final = frozenset({"log_unavailable", "views_unavailable", "ledger_catching_up", "overloaded"})
"""Codes of answers with status 503."""


class Violation(AssertionError):
    """A promise was broken."""


def demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Violation(otherwise)


def is_undecided(result: Any) -> bool:
    """Return whether there was no answer, or one with status 503."""
    return result is None or getattr(result, "code", "") in TRY_AGAIN


def described(result: Any) -> str:
    if isinstance(result, Accepted):
        return f"201 at {result.partition}/{result.offset}, accepted {result.terms.accepted_at}"
    if isinstance(result, TallyError):
        return f"{type(result).__name__}: {result.message} ({result.cause})"
    return repr(result)[:150]


@dataclass(slots=True)
class Bought:
    """A purchase by its token; `key` is None until its recording was answered."""

    token: str
    contest: str
    participant: str
    key: str | None = None
    is_refunded: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """Acknowledged records that a partition of the votes lost at a time, and the view's position then.

    `records` are all that it had until then, the lost ones from `first` on. `folded` is None where the view's
    server lost something, too.
    """

    partition: int
    at: float
    first: int
    records: list[LogRecord]
    folded: int | None


@dataclass(frozen=True, slots=True)
class Reported:
    """A report of an external source, and its result."""

    contest: str
    source: str
    report: SourceReport
    result: Any


@dataclass(frozen=True, slots=True)
class Read:
    """What a voter's client was answered when it asked for a vote or an allowance."""

    name: Name
    began_at: float
    result: Any


@dataclass(slots=True)
class Answer:
    """A request and its result: an outcome, an error, or None if there was no answer."""

    command: CastVote | RemoveVote
    is_refund: bool
    began_at: float
    result: Any = None
    ended_at: float = 0.0
    voided_at: int | None = None
    """The view's offset if the vote was voided when its removal was asked for, and none was pending."""

    @property
    def name(self) -> Name:
        return self.command.contest, self.command.voter, self.command.vote_id

    @property
    def is_cast(self) -> bool:
        return isinstance(self.command, CastVote) and not self.is_refund

    @property
    def is_removed(self) -> bool:
        return isinstance(self.result, Removed)

    @property
    def was_refused(self) -> bool:
        """True if the answer says that this attempt is not recorded, and never will be."""
        return isinstance(self.result, TallyError) and not isinstance(self.result, AppendUnknown)


def first_began(answers: Iterable[Answer]) -> dict[Name, float]:
    """Return when each vote's first request began."""
    return _earliest((answer.name, answer.began_at) for answer in answers)


def first_accepted(answers: Iterable[Answer]) -> dict[Name, float]:
    """Return when each vote was first answered 201."""
    return _earliest((each.name, each.ended_at) for each in answers if isinstance(each.result, Accepted))


def _earliest(times: Iterable[tuple[Name, float]]) -> dict[Name, float]:
    found: dict[Name, float] = {}
    for name, at in times:
        found[name] = min(at, found.get(name, at))
    return found
