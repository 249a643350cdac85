"""`tally log`: prints a contest's events with the outcome of each, or the audit log."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any, Final

import orjson
from rich.text import Text
from typer import BadParameter, Exit, Option

from libs.audit.audit_log import AuditFilter, AuditRow, MemberChange, read_audit
from libs.audit.contest_history import History, HistoryStep, VoteEffect
from libs.audit.log_fold import without_gc
from libs.audit.partition_merge import extents_between, followed, in_order, streams
from libs.audit.recount import read_secret
from libs.contracts.codec import vote_codec
from libs.contracts.pseudonyms import pseudonym
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.tally.events import (
    ContestClosed,
    ContestEvent,
    ContestReopened,
    SourceReported,
    VoteCast,
    VoteRemoved,
    VoteRestored,
    VoteVoided,
)
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import (
    EnvironmentOption,
    OneContest,
    Titles,
    command,
    moment,
    named,
    read_titles,
)
from services.cli.output import Block, Result
from services.cli.vote_selection import units_of

ALARMING: Final[Mapping[str, str]] = {
    "overruled": "red", "quarantined": "red", "fenced": "yellow", "duplicate": "dim", "late": "yellow",
}  # fmt: skip
MILLISECONDS: Final = len("2026-05-01T18:00:00.000")
SHORT: Final = 6
"""Characters of a pseudonym that suffice to distinguish the voters on a screen."""
MOST_OF_VALUE: Final = 120
"""Characters of a member's value in a line; `--json` has all."""


@dataclass(frozen=True, slots=True)
class EventSelection:
    """Options that select events."""

    voter: Annotated[str | None, Option(help="Only this voter, by the id used in the API.")] = None
    anonymous: Annotated[str | None, Option(help="Only this anonymous voter.")] = None
    partition: Annotated[int | None, Option(min=0, help="Only this partition.")] = None
    participant: Annotated[str | None, Option(help="Only votes for the participant with this key.")] = None
    source: Annotated[str | None, Option(help="Only votes or reports of this source.")] = None
    address: Annotated[
        str | None, Option(help="Only votes from this IP address or network, or from an address's pseudonym.")
    ] = None
    most: Annotated[int | None, Option("--limit", min=1, help="Print only the first ones.")] = None
    since: Annotated[
        str | None, Option("--from", "--since", help="Only records appended at this time or later.")
    ] = None
    until: Annotated[str | None, Option(help="Only records appended before this time.")] = None

    @property
    def since_ms(self) -> int:
        return 0 if self.since is None else _milliseconds(self.since, "--from")

    @property
    def until_ms(self) -> int | None:
        return None if self.until is None else _milliseconds(self.until, "--until")


@command()
async def log(
    deployment: Deployment,
    selection: EventSelection,
    contest: OneContest = None,
    follow: Annotated[bool, Option("--follow", help="Print new events until interrupted.")] = False,
    audit: Annotated[
        bool, Option("--audit", help="Print the audit log of writes and of operators' actions instead.")
    ] = False,
    key: Annotated[str | None, Option(help="With --audit: only this API key, by its id.")] = None,
    account: Annotated[str | None, Option(help="With --audit: only this account.")] = None,
    environment: EnvironmentOption = Environment.PRODUCTION,
) -> AsyncGenerator[Result, None]:
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
    if follow and selection.until is not None:
        raise BadParameter("Give either --until or --follow.", param_hint="--until")
    if audit:
        others = contest, selection.voter, selection.anonymous, selection.participant, selection.source
        if follow or any(other is not None for other in (*others, selection.address, selection.most)):
            raise BadParameter(
                "Can be combined with --key, --account, --from and --until only.", param_hint="--audit"
            )
        wanted = AuditFilter(key, account, selection.since_ms, selection.until_ms)
        async for row in read_audit(deployment, environment, wanted):
            yield Result(row, [audit_line(row)])
        return
    if contest is None:
        raise BadParameter("Give a contest, or --audit.", param_hint="CONTEST")
    try:
        async for event in _events(deployment, contest, selection, follow=follow):
            yield event
    except asyncio.CancelledError:
        if not follow:
            raise
        raise Exit from None


async def _events(
    deployment: Deployment, contest: str, selection: EventSelection, *, follow: bool
) -> AsyncGenerator[Result, None]:
    some, voter = await _partitions_and_voter(deployment, contest, selection)
    since_ms, until_ms = selection.since_ms, selection.until_ms
    topic, partitions = deployment.votes.name, deployment.votes.numbers if some is None else some
    reader, note, history = deployment.reader, deployment.progress.note, History(contest, partitions)
    scope = "the whole contest" if some is None else f"partition {', '.join(map(str, some))} alone"
    titles = await read_titles(deployment, contest)
    note(f"Contest {titles}. The counts are those of {scope}, by append time.")
    note(
        "Each line: time, partition/offset, event, outcome, details: counts before -> after, the last one of all."
    )
    extents = await extents_between(reader, topic, partitions, 0, until_ms)
    result = partial(_event, whole=some is None, titles=titles)

    addresses = await _addresses(deployment, contest, selection.address)

    def is_wanted(step: HistoryStep) -> bool:
        event = step.event
        return (
            step.entry.time_ms >= since_ms
            and voter in (None, getattr(event, "voter", None))
            and selection.source in (None, getattr(event, "source", None))
            and (addresses is None or getattr(event, "address", None) in addresses)
            and (selection.participant is None or selection.participant in participants_of(event))
        )

    folded = shown = 0
    with without_gc():
        async with aclosing(in_order(streams(reader, topic, extents, vote_codec))) as entries:
            async for entry in entries:
                step = history.take(entry)
                folded += step is not None
                if step is not None and is_wanted(step):
                    shown += 1
                    yield result(step)
                    if shown == selection.most:
                        note(f"The first {shown:,} events; --limit leaves out later ones.")
                        return
    if not folded:  # A deleted contest is still in the log; otherwise it must be in the catalogue.
        await deployment.catalogue.owner_of(contest)
    note(f"{shown:,} of {folded:,} events.")
    if follow:
        starts = {partition: extent.end for partition, extent in extents.items()}
        async with aclosing(followed(reader, topic, starts)) as entries:
            async for entry in entries:
                step = history.take(entry)
                if step is not None and is_wanted(step):
                    shown += 1
                    yield result(step)
                    if shown == selection.most:
                        return


async def _addresses(deployment: Deployment, contest: str, address: str | None) -> set[str] | None:
    """Return the pseudonyms of an address or network in this contest; None for all."""
    if address is None:
        return None
    units = units_of(address)
    secret = await read_secret(deployment, contest) if units else b""
    return {pseudonym(secret, "address", unit) for unit in units} or {address}


def participants_of(event: ContestEvent) -> set[str]:
    """Return the participants of a vote; of its removal those whose votes from an address are given back."""
    match event:
        case VoteCast():
            return {participant for participant, _ in event.choices}
        case VoteRemoved():
            return {*event.participants}
    return set()


async def _partitions_and_voter(
    deployment: Deployment, contest: str, selection: EventSelection
) -> tuple[list[int] | None, str | None]:
    """Return the partitions to read and the pseudonym of the voter; None for all.

    A voter's are one of each topic, since a deleted contest's topic is not known.
    """
    voter, anonymous, partition = selection.voter, selection.anonymous, selection.partition
    if partition is not None and partition not in deployment.votes.numbers:
        raise BadParameter(
            f"The votes log has partitions 0 to {deployment.votes.end - 1}.", param_hint="--partition"
        )
    if voter is None and anonymous is None:
        return None if partition is None else [partition], None
    if partition is not None or None not in (voter, anonymous):
        raise BadParameter("Give one of --voter, --anonymous and --partition.")
    secret = await read_secret(deployment, contest)
    name = pseudonym(secret, "anonymous", anonymous or "") if voter is None else pseudonym(secret, "voter", voter)
    return [topic.partition_of(name) for topic in deployment.votes.topics], name


def _milliseconds(text: str, option: str) -> int:
    """Return the first millisecond that is not before the time."""
    return -(-moment(text, option) // 1000)


def _event(step: HistoryStep, *, whole: bool, titles: Titles) -> Result:
    """Return an event with its outcome; `whole`: all partitions are folded, so the contest's counts are known."""
    event, change, entry = step.event, step.contest if whole else step.partition, step.entry
    members = {
        "time": timestamp(entry.record.timestamp_ms * 1000) or "",
        "partition": entry.partition,
        "offset": entry.record.offset,
        "type": type(event).__name__,
        "outcome": step.outcome,
        "replaced": step.replaced,
        "held": step.held,
        "partition_counts": _counts(event, step.partition),
        "contest_counts": _counts(event, step.contest) if whole else None,
        "event": asdict(event),
    }
    return Result(members, _line(step, change, titles, "contest" if whole else "partition"))


def _line(step: HistoryStep, change: VoteEffect, titles: Titles, total: str) -> Iterator[Block]:
    event, record = step.event, step.entry.record
    time = (timestamp(record.timestamp_ms * 1000) or "")[:MILLISECONDS].replace("T", " ")
    line = Text(f"{time} {step.entry.partition}/{record.offset} {type(event).__name__} ", no_wrap=True)
    line.append(step.outcome, ALARMING.get(step.outcome))
    line.append(f" {_details(event)}")
    if step.replaced is not None:
        line.append(f" replaces={step.replaced}")
    if step.held:
        line.append(f" held={','.join(step.held)}")
    parts = ", ".join(f"{named(key, titles.of(key))} {_arrow(counts)}" for key, counts in change.parts.items())
    total = "source" if isinstance(event, SourceReported) else total
    yield line.append(f": {parts + '; ' if parts else ''}{total} {_arrow(change.total)}")


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


def audit_line(row: AuditRow) -> str:
    actor = row.actor
    who = "unknown" if actor is None else f"{actor.kind} {actor.name}"
    origin = f" from {actor.origin}" if actor is not None and actor.origin else ""
    account = f" account={row.account}" if row.account else ""
    subject = " ".join(f"{name}={value}" for name, value in row.subject.items())
    changes = "; ".join(map(_change_text, row.changes))
    return f"{row.time}  {who}{origin}  {row.action}{account} {subject}{': ' if changes else ''}{changes}".rstrip()


def _change_text(change: MemberChange) -> str:
    old, new = (_value_text(value) for value in (change.old, change.new))
    return f"{change.record}{' ' if change.record else ''}{change.member} {old} → {new}"


def _value_text(value: object) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= MOST_OF_VALUE else f"{text[:MOST_OF_VALUE]}…"
