"""`tally log`: prints a contest's events with the outcome of each, or the audit log."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final

import orjson
import typer
from rich.text import Text

from libs.audit.audit_log import AuditFilter, AuditRow, MemberChange, read_audit
from libs.audit.contest_history import ContestEvent, History, HistoryStep, VoteEffect
from libs.audit.log_fold import without_gc
from libs.audit.partition_merge import followed, merged
from libs.audit.recount import find_voter
from libs.contracts.codec import vote_codec
from libs.contracts.ndjson_codec import HIDDEN
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.kafka.reader import Extent
from libs.tally.errors import NotFound
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
from services.cli.command_decorator import EnvironmentOption, OneContest, command, moment
from services.cli.contest_lookup import Titles, named, read_titles
from services.cli.render import Block, printable

ALARMING: Final[Mapping[str, str]] = {
    "overruled": "red", "quarantined": "red", "fenced": "yellow", "duplicate": "dim", "late": "yellow",
}  # fmt: skip


MILLISECONDS: Final = len("2026-05-01T18:00:00.000")
SHORT: Final = 6
MOST_OF_VALUE: Final = 120
"""Characters of a member's value in a line; `--json` has all."""
"""Characters of a pseudonym that suffice to distinguish the voters on a screen."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event with its outcome; `whole`: all partitions are folded, so the contest's counts are known."""

    step: HistoryStep = field(metadata=HIDDEN)
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
    changes = "; ".join(_change_text(change) for change in row.changes)
    yield f"{row.time}  {who}{origin}  {row.action}{account} {subject}{': ' if changes else ''}{changes}".rstrip()


def _change_text(change: MemberChange) -> str:
    old, new = (_value_text(value) for value in (change.old, change.new))
    return f"{change.record}{' ' if change.record else ''}{change.member} {old} → {new}"


def _value_text(value: object) -> str:
    text = printable(orjson.dumps(value).decode())
    return text if len(text) <= MOST_OF_VALUE else f"{text[:MOST_OF_VALUE]}…"


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


def _counts(event: ContestEvent, change: VoteEffect) -> dict[str, Any]:
    total, parts = ("source", "mapped_ids") if isinstance(event, SourceReported) else ("contest", "participants")
    return {
        when: {total: change.total[at], parts: {name: pair[at] for name, pair in change.parts.items()}}
        for at, when in enumerate(("before", "after"))
    }


START: Final = 0


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Selects events by partition (`whole`: all partitions), voter (a pseudonym) and append time in [since,
    until).
    """

    contest: str
    partitions: list[int]
    whole: bool
    voter: str | None
    since_ms: int
    until_ms: int | None

    def has(self, step: HistoryStep) -> bool:
        if step.entry.time_ms < self.since_ms:
            return False
        return self.voter is None or getattr(step.event, "voter", None) == self.voter


def _text(shown: LoggedEvent | AuditRow) -> Iterator[Block]:
    return event_text(shown) if isinstance(shown, LoggedEvent) else audit_text(shown)


@command(text=_text)
async def log(
    deployment: Deployment,
    contest: OneContest = None,
    voter: Annotated[
        str | None, typer.Option("--voter", help="Only this voter, by the id used in the API.")
    ] = None,
    anonymous: Annotated[str | None, typer.Option("--anonymous", help="Only this anonymous voter.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Only this partition.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", "--since", help="Only records appended at this time or later.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only records appended before this time.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Print new events until interrupted.")] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="Print the audit log of writes and of operators' actions instead.")
    ] = False,
    key: Annotated[str | None, typer.Option("--key", help="With --audit: only this API key, by its id.")] = None,
    account: Annotated[str | None, typer.Option("--account", help="With --audit: only this account.")] = None,
    environment: EnvironmentOption = Environment.PRODUCTION,
) -> AsyncGenerator[LoggedEvent | AuditRow, None]:
    """Print a contest's events with the outcome of each, and the counts before and after.

    All partitions are merged by append time, and the counts are those of the whole contest; with --voter,
    --anonymous or --partition one partition is read, and the counts are that partition's. --follow prints new
    events as they arrive. The counts include participants of any status and only internal sources; those of a
    report are by its source's ids.

    --audit lists each write to the catalogue, each report of an external source, purchase and refund, and each
    removal by a voter, including those refused because another came first; and each action of an operator. Each
    has the API key's id and the caller's address (not for a removal, which voters send), or the command and the
    operating system's user. Votes are not listed. --from limits the records read from the votes and purchases.
    """
    if follow and until is not None:
        raise typer.BadParameter("Give either --until or --follow.", param_hint="--until")
    since_ms = START if since is None else _milliseconds(since, "--from")
    until_ms = None if until is None else _milliseconds(until, "--until")
    if audit:
        if contest is not None or voter is not None or anonymous is not None or follow:
            raise typer.BadParameter(
                "Cannot be combined with a contest, a voter or --follow.", param_hint="--audit"
            )
        async for row in read_audit(deployment, environment, AuditFilter(key, account, since_ms, until_ms)):
            yield row
        return
    if contest is None:
        raise typer.BadParameter("Give a contest, or --audit.", param_hint="CONTEST")
    only, named = await _partition_and_voter(deployment, contest, voter, anonymous, partition)
    partitions = deployment.votes.numbers if only is None else only
    wanted = EventFilter(contest, partitions, only is None, named, since_ms, until_ms)
    try:
        async for event in _events(deployment, wanted, follow=follow):
            yield event
    except asyncio.CancelledError:
        if not follow:
            raise
        raise typer.Exit from None


async def _events(
    deployment: Deployment, wanted: EventFilter, *, follow: bool
) -> AsyncGenerator[LoggedEvent, None]:
    topic, history = deployment.votes.name, History(wanted.contest, wanted.partitions)
    reader, note = deployment.reader, deployment.progress.note
    some = ", ".join(map(str, wanted.partitions))
    scope = "the whole contest" if wanted.whole else f"partition {some} alone"
    titles = await read_titles(deployment, wanted.contest)
    note(f"Contest {titles}. The counts are those of {scope}, by append time.")
    await reader.log_ids(topic, wanted.partitions)
    ends = await reader.end_offsets(topic, wanted.partitions)
    if wanted.until_ms is not None:
        ends = await reader.offsets_from(topic, wanted.partitions, wanted.until_ms)
    ranges = {partition: Extent(START, end) for partition, end in ends.items()}
    folded = shown = 0
    with without_gc():
        async with aclosing(merged(reader, topic, ranges, vote_codec)) as entries:
            async for entry in entries:
                step = history.take(entry)
                folded += step is not None
                if step is not None and wanted.has(step):
                    shown += 1
                    yield LoggedEvent(step, wanted.whole, titles)
    if not folded:  # A deleted contest is still in the log; otherwise it must be in the catalogue.
        await deployment.catalogue.owner_of(wanted.contest)
    note(f"{shown:,} of {folded:,} events.")
    if follow:
        async with aclosing(followed(reader, topic, ends)) as entries:
            async for entry in entries:
                step = history.take(entry)
                if step is not None and wanted.has(step):
                    yield LoggedEvent(step, wanted.whole, titles)


async def _partition_and_voter(
    deployment: Deployment, contest: str, voter: str | None, anonymous: str | None, partition: int | None
) -> tuple[list[int] | None, str | None]:
    """Return the partitions to read and the pseudonym of the voter; None for all."""
    if partition is not None and partition not in deployment.votes.numbers:
        raise typer.BadParameter(
            f"The votes log has partitions 0 to {deployment.votes.end - 1}.", param_hint="--partition"
        )
    if voter is None and anonymous is None:
        return None if partition is None else [partition], None
    if partition is not None or None not in (voter, anonymous):
        raise typer.BadParameter("Give one of --voter, --anonymous and --partition.")
    found = await find_voter(deployment, contest, voter, anonymous)
    if found is None:
        await deployment.catalogue.owner_of(contest)
        raise NotFound(
            f"No secret of contest {contest} is in the object store: it has no votes yet, or "
            "TALLY_STORAGE_URL names another store."
        )
    return found.partitions, found.pseudonym


def _milliseconds(text: str, option: str) -> int:
    """Return the first millisecond that is not before the time."""
    return -(-moment(text, option) // 1000)
