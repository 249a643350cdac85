"""`tally log`: a contest's events one by one, with what became of each; or the audit."""

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

AsNdjson = Annotated[bool, typer.Option("--json", help="Print a line of JSON an event.")]
START: Final = 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events to show: of these partitions (`whole`: of all), of one voter (a pseudonym) or of all, appended
    in [since, until).
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
    voter: Annotated[str | None, typer.Option("--voter", help="Only this voter, by your own id.")] = None,
    anonymous: Annotated[str | None, typer.Option("--anonymous", help="Only this anonymous voter.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Only this partition.")] = None,
    since: Annotated[
        str | None, typer.Option("--from", "--since", help="Only what was appended then or later.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only what was appended before.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on until interrupted.")] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="Who wrote to the logs, and what operators did, instead.")
    ] = False,
    key: Annotated[str | None, typer.Option("--key", help="Of the audit: by this API key, by its id.")] = None,
    account: Annotated[str | None, typer.Option("--account", help="Of the audit: only of this account.")] = None,
    environment: EnvironmentOption = Environment.PRODUCTION,
    data_dir: DataDir = DATA_DIR,
    in_json: AsNdjson = False,
) -> None:
    """Step through a contest's events: what became of each as it was folded, and the counts before and after.

    All partitions are merged by append time, and the counts are the whole contest's; with --voter, --anonymous or
    --partition only one is read, and they are that one's. With --follow what comes next is told as it comes. They
    are the fold's counts: of participants of any status, internal sources alone; of a report by its source's ids.

    With --audit: each write to the catalogue, each report of an external source, purchase and refund, and each
    removal by a voter, also one that was refused since another came first; and each action of an operator. With
    the API key's id and the caller's address (of a removal, which voters send, without it), or the command and the
    system's user. Votes themselves are not in it. --from bounds what is read of the votes and purchases.
    """

    async def work() -> ExitCode:
        if follow and until is not None:
            raise typer.BadParameter("Either stop at a time, or follow.", param_hint="--until")
        stack = find_deployment(data_dir)
        since_ms = START if since is None else _milliseconds(since, "--from")
        until_ms = None if until is None else _milliseconds(until, "--until")
        if audit:
            if contest is not None or voter is not None or anonymous is not None or follow:
                raise typer.BadParameter("It is of no contest or voter, and ends.", param_hint="--audit")
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
            raise typer.BadParameter("Name one, or ask for the --audit.", param_hint="--contest")
        named = await _partition_and_voter(stack, contest, voter, anonymous, partition)
        wanted = Wanted(
            contest=contest,
            partitions=list(range(stack.partitions)) if named[0] is None else [named[0]],
            whole=named[0] is None,
            voter=named[1],
            since_ms=since_ms,
            until_ms=until_ms,
        )
        try:
            await _tell(stack, wanted, _Printer(wanted, in_json=in_json), follow=follow)
        except asyncio.CancelledError:
            if not follow:
                raise
        return ExitCode.FINE

    run(work())


async def _tell(stack: Deployment, wanted: Wanted, printer: "_Printer", *, follow: bool) -> None:
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
        if not printer.folded:  # one that was deleted is still in the log; one in neither is nowhere
            await read_contest(stack, wanted.contest)
        if follow:
            async with aclosing(followed(reader, topic, ends)) as entries:
                async for entry in entries:
                    printer.take(history.take(entry))
    printer.end()


class _Printer:
    """Prints the steps that are wanted as they come."""

    def __init__(self, wanted: Wanted, *, in_json: bool) -> None:
        self.folded = 0
        self._shown = 0
        self._wanted = wanted
        self._in_json = in_json
        self._console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
        if not in_json:
            scope = "the whole contest" if wanted.whole else f"partition {wanted.partitions[0]} alone"
            self._console.print(f"Counts are those of {scope}, by append time.", style="dim")

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
    """The only partition to read, and the pseudonym of the only voter; None for all."""
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
    """The first one that is not before the time."""
    return -(-moment(text, option) // 1000)
