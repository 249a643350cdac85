"""Renders one event of a contest's history as a line of text or as JSON."""

from typing import Any

from rich.text import Text

from libs.audit.contest_history import Change, ContestEvent, Step
from libs.tally.events import (
    ContestClosed,
    ContestReopened,
    SourceReported,
    VoteCast,
    VoteRemoved,
    VoteRestored,
    VoteVoided,
)
from libs.tally.time import timestamp

ALARMING = {"overruled": "red", "quarantined": "red", "fenced": "yellow", "duplicate": "dim", "late": "yellow"}
SHORT = 6
"""Characters of a pseudonym that suffice to distinguish the voters on a screen."""


def as_json(step: Step, *, whole: bool) -> dict[str, Any]:
    """Return the event as JSON; with `whole`, all partitions are folded, so the contest's counts are included."""
    return {
        "time": timestamp(step.entry.record.timestamp_ms * 1000),
        "partition": step.entry.partition,
        "offset": step.entry.record.offset,
        "type": type(step.event).__name__,
        "outcome": step.outcome,
        "replaced": step.replaced,
        "held": step.held,
        "partition_counts": _counts(step.event, step.partition),
        "contest_counts": _counts(step.event, step.contest) if whole else None,
        "event": step.event,
    }


def as_line(step: Step, *, whole: bool, short: bool) -> Text:
    """Return the event as a line; `short` abbreviates times and pseudonyms."""
    record, change = step.entry.record, step.contest if whole else step.partition
    time = timestamp(record.timestamp_ms * 1000) or ""
    where = f"{step.entry.partition}/{record.offset}"
    line = Text(f"{time[5:23].replace('T', ' ') if short else time} {where} {type(step.event).__name__} ")
    line.append(step.outcome, ALARMING.get(step.outcome))
    line.append(f" {_details(step.event, short)}")
    if step.replaced is not None:
        line.append(f" replaces={step.replaced}")
    if step.held:
        line.append(f" held={','.join(step.held)}")
    parts = ", ".join(f"{name} {_arrow(counts)}" for name, counts in change.parts.items())
    total = "source" if isinstance(step.event, SourceReported) else "contest" if whole else "partition"
    return line.append(f": {parts + '; ' if parts else ''}{total} {_arrow(change.total)}")


def _details(event: ContestEvent, short: bool) -> str:
    match event:
        case VoteCast() | VoteRemoved():
            anonymous = " anonymous" if event.anonymous else ""
            return f"voter={_name(event.voter, short)}{anonymous} vote_id={event.vote_id} source={event.source}"
        case VoteVoided() | VoteRestored():
            return f"voter={_name(event.voter, short)} vote_id={event.vote_id} void={event.void}"
        case SourceReported():
            return f"source={event.source} report_id={event.report_id} mode={event.mode}"
        case ContestClosed():
            return f"seq={event.seq}" + (f" source={event.source}" if event.source else "")
        case ContestReopened():
            return f"seq={event.seq}"


def _name(voter: str, short: bool) -> str:
    return f"{voter[:SHORT]}…" if short and len(voter) > SHORT else voter


def _arrow(counts: tuple[int, int]) -> str:
    before, after = counts
    return f"{before:,} -> {after:,}"


def _counts(event: ContestEvent, change: Change) -> dict[str, Any]:
    total, parts = ("source", "mapped_ids") if isinstance(event, SourceReported) else ("contest", "participants")
    return {
        when: {total: change.total[at], parts: {name: pair[at] for name, pair in change.parts.items()}}
        for at, when in enumerate(("before", "after"))
    }
