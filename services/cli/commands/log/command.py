"""`tally log`: prints a contest's events with the outcome of each, or the audit log."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from libs.audit.audit_log import AuditFilter, AuditRow, read_audit
from libs.audit.contest_history import History, Step
from libs.audit.log_fold import without_gc
from libs.audit.partition_merge import followed, merged
from libs.audit.voter_lookup import find_voter
from libs.contracts.codec import vote_codec
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.kafka.reader import Extent
from libs.tally.errors import NotFound
from services.cli.command_decorator import EnvironmentOption, OneContest, command, moment
from services.cli.commands.log.render import LoggedEvent, audit_text, event_text
from services.cli.contest_lookup import read_titles
from services.cli.render import Block

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

    def has(self, step: Step) -> bool:
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
