"""One event of a contest's history, as a line of text or as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from rich.text import Text

from libs.audit.audit_log import AuditRow
from libs.audit.contest_history import Change, ContestEvent, Step
from libs.contracts.dataclass_json import HIDDEN
from libs.tally.events import (
    ContestClosed,
    ContestReopened,
    SourceReported,
    VoteCast,
    VoteRemoved,
    VoteRestored,
    VoteVoided,
)
from libs.tally.time_conversion import timestamp
from services.cli.contest_lookup import Titles, named
from services.cli.render import Block

ALARMING: Final[Mapping[str, str]] = {
    "overruled": "red", "quarantined": "red", "fenced": "yellow", "duplicate": "dim", "late": "yellow",
}  # fmt: skip


MILLISECONDS: Final = len("2026-05-01T18:00:00.000")
SHORT: Final = 6
"""Characters of a pseudonym that suffice to distinguish the voters on a screen."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event with its outcome; `whole`: all partitions are folded, so the contest's counts are known."""

    step: Step = field(metadata=HIDDEN)
    whole: bool = field(metadata=HIDDEN)
    titles: Titles = field(metadata=HIDDEN)

    @property
    def time(self) -> str:
        return timestamp(self.step.entry.record.timestamp_ms * 1000) or ""

    @property
    def partition(self) -> int:
        return self.step.entry.partition

    @property
    def offset(self) -> int:
        return self.step.entry.record.offset

    @property
    def type(self) -> str:
        return type(self.step.event).__name__

    @property
    def outcome(self) -> str:
        return self.step.outcome

    @property
    def replaced(self) -> str | None:
        return self.step.replaced

    @property
    def held(self) -> tuple[str, ...]:
        return self.step.held

    @property
    def partition_counts(self) -> dict[str, Any]:
        return _counts(self.step.event, self.step.partition)

    @property
    def contest_counts(self) -> dict[str, Any] | None:
        return _counts(self.step.event, self.step.contest) if self.whole else None

    @property
    def event(self) -> dict[str, Any]:
        return asdict(self.step.event)


def event_text(logged: LoggedEvent) -> Iterator[Block]:
    """Yield the event as a line, with an abbreviated pseudonym."""
    yield _line(logged)


def audit_text(row: AuditRow) -> Iterator[Block]:
    """Yield the row as a line."""
    actor = row.actor
    who = "unknown" if actor is None else f"{actor.kind} {actor.name}"
    origin = f" from {actor.origin}" if actor is not None and actor.origin else ""
    account = f" account={row.account}" if row.account else ""
    subject = " ".join(f"{name}={value}" for name, value in row.subject.items())
    yield f"{row.time}  {who}{origin}  {row.action}{account} {subject}".rstrip()


def _line(logged: LoggedEvent) -> Text:
    event, change = logged.step.event, logged.step.contest if logged.whole else logged.step.partition
    time = logged.time[:MILLISECONDS].replace("T", " ")
    line = Text(f"{time} {logged.partition}/{logged.offset} {logged.type} ", no_wrap=True)
    line.append(logged.outcome, ALARMING.get(logged.outcome))
    line.append(f" {_details(event)}")
    if logged.replaced is not None:
        line.append(f" replaces={logged.replaced}")
    if logged.held:
        line.append(f" held={','.join(logged.held)}")
    titles = logged.titles
    parts = ", ".join(f"{named(key, titles.of(key))} {_arrow(counts)}" for key, counts in change.parts.items())
    total = "source" if isinstance(event, SourceReported) else "contest" if logged.whole else "partition"
    return line.append(f": {parts + '; ' if parts else ''}{total} {_arrow(change.total)}")


def _details(event: ContestEvent) -> str:
    match event:
        case VoteCast() | VoteRemoved():
            anonymous = " anonymous" if event.anonymous else ""
            return f"voter={_name(event.voter)}{anonymous} vote_id={event.vote_id} source={event.source}"
        case VoteVoided() | VoteRestored():
            return f"voter={_name(event.voter)} vote_id={event.vote_id} void={event.void}"
        case SourceReported():
            return f"source={event.source} report_id={event.report_id} mode={event.mode}"
        case ContestClosed():
            return f"seq={event.seq}" + (f" source={event.source}" if event.source else "")
        case ContestReopened():
            return f"seq={event.seq}"


def _name(voter: str) -> str:
    return f"{voter[:SHORT]}…" if len(voter) > SHORT else voter


def _arrow(counts: tuple[int, int]) -> str:
    before, after = counts
    return f"{before:,} -> {after:,}"


def _counts(event: ContestEvent, change: Change) -> dict[str, Any]:
    total, parts = ("source", "mapped_ids") if isinstance(event, SourceReported) else ("contest", "participants")
    return {
        when: {total: change.total[at], parts: {name: pair[at] for name, pair in change.parts.items()}}
        for at, when in enumerate(("before", "after"))
    }
