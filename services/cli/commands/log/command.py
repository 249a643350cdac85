"""`tally log`: prints a contest's events with the outcome of each, or the audit log."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Final

import typer
from rich.console import Console

from libs.audit.audit_log import AuditFilter, read_audit
from libs.audit.audit_log import as_line as as_audit_line
from libs.audit.contest_history import History, Step
from libs.audit.historical_counts import read_contest
from libs.audit.log_fold import without_gc
from libs.audit.partition_merge import followed, merged
from libs.audit.voter_lookup import find_voter
from libs.contracts.codec import vote_codec
from libs.contracts.topics import votes_topic
from libs.deployment.deployment import Deployment
from libs.kafka.reader import Extent, LogReader
from libs.tally.errors import NotFound
from services.cli.catalogue_access import Environment, EnvironmentOption
from services.cli.commands.log.render import as_json, as_line
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.runner import DataDir, ExitCode, moment, print_json, run

AsNdjson = Annotated[bool, typer.Option("--json", help="Print one line of JSON per event.")]
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


def log(
    contest: Annotated[str | None, typer.Option("--contest", help="Key of the contest.")] = None,
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
    data_dir: DataDir = DATA_DIR,
    in_json: AsNdjson = False,
) -> None:
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

    async def work() -> ExitCode:
        if follow and until is not None:
            raise typer.BadParameter("Give either --until or --follow.", param_hint="--until")
        stack = find_deployment(data_dir)
        since_ms = START if since is None else _milliseconds(since, "--from")
        until_ms = None if until is None else _milliseconds(until, "--until")
        if audit:
            if contest is not None or voter is not None or anonymous is not None or follow:
                raise typer.BadParameter(
                    "Cannot be combined with a contest, a voter or --follow.", param_hint="--audit"
                )
            rows = read_audit(
                stack,
                environment.namespace(stack.namespace),
                AuditFilter(key, account, since_ms, until_ms),
                catalogue_only=environment is Environment.TEST,
            )
            async for row in rows:
                print_json(row) if in_json else typer.echo(as_audit_line(row))
            return ExitCode.FINE
        if contest is None:
            raise typer.BadParameter("Give a contest, or --audit.", param_hint="--contest")
        named = await _partition_and_voter(stack, contest, voter, anonymous, partition)
        wanted = EventFilter(
            contest=contest,
            partitions=list(range(stack.partitions)) if named[0] is None else [named[0]],
            whole=named[0] is None,
            voter=named[1],
            since_ms=since_ms,
            until_ms=until_ms,
        )
        try:
            await _print_history(stack, wanted, _Printer(wanted, in_json=in_json), follow=follow)
        except asyncio.CancelledError:
            if not follow:
                raise
        return ExitCode.FINE

    run(work())


async def _print_history(stack: Deployment, wanted: EventFilter, printer: "_Printer", *, follow: bool) -> None:
    topic, history = (
        votes_topic(stack.namespace, stack.partitions).name,
        History(wanted.contest, wanted.partitions),
    )
    async with LogReader(stack.kafka_settings) as reader:
        await reader.log_ids(topic, wanted.partitions)
        ends = await reader.end_offsets(topic, wanted.partitions)
        if wanted.until_ms is not None:
            ends = await reader.offsets_from(topic, wanted.partitions, wanted.until_ms)
        ranges = {partition: Extent(START, end) for partition, end in ends.items()}
        with without_gc():
            async with aclosing(merged(reader, topic, ranges, vote_codec)) as entries:
                async for entry in entries:
                    printer.take(history.take(entry))
        if not printer.folded:  # A deleted contest is still in the log; otherwise it must be in the catalogue.
            await read_contest(stack, wanted.contest)
        if follow:
            async with aclosing(followed(reader, topic, ends)) as entries:
                async for entry in entries:
                    printer.take(history.take(entry))
    printer.end()


class _Printer:
    """Prints the selected events as they arrive."""

    def __init__(self, wanted: EventFilter, *, in_json: bool) -> None:
        self.folded = 0
        self._shown = 0
        self._wanted = wanted
        self._in_json = in_json
        self._console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
        if not in_json:
            scope = "the whole contest" if wanted.whole else f"partition {wanted.partitions[0]} alone"
            self._console.print(f"The counts are those of {scope}, by append time.", style="dim")

    def take(self, step: Step | None) -> None:
        if step is None:
            return
        self.folded += 1
        if not self._wanted.has(step):
            return
        self._shown += 1
        if self._in_json:
            print_json(as_json(step, whole=self._wanted.whole))
        else:
            self._console.print(as_line(step, whole=self._wanted.whole, short=self._console.is_terminal))

    def end(self) -> None:
        if not self._in_json:
            self._console.print(f"{self._shown:,} of {self.folded:,} events.", style="dim")


async def _partition_and_voter(
    stack: Deployment, contest: str, voter: str | None, anonymous: str | None, partition: int | None
) -> tuple[int | None, str | None]:
    """Return the partition to read and the pseudonym of the voter; None for all."""
    if partition is not None and partition >= stack.partitions:
        raise typer.BadParameter(
            f"The votes log has partitions 0 to {stack.partitions - 1}.", param_hint="--partition"
        )
    if voter is None and anonymous is None:
        return partition, None
    if partition is not None or None not in (voter, anonymous):
        raise typer.BadParameter("Give one of --voter, --anonymous and --partition.")
    found = await find_voter(stack, contest, voter, anonymous)
    if found is None:
        await read_contest(stack, contest)
        raise NotFound(
            f"No secret of contest {contest} is in the object store: nobody has voted in it yet, or "
            "TALLY_STORAGE_URL names another store."
        )
    return found.partition, found.pseudonym


def _milliseconds(text: str, option: str) -> int:
    """Return the first millisecond that is not before the time."""
    return -(-moment(text, option) // 1000)
