"""`tally status`: shows positions, lag and gates by partition."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final

import orjson
import psutil
import typer
from rich.text import Text

from libs.contracts.ndjson_codec import HIDDEN
from libs.deployment.deployment import Deployment
from libs.deployment.settings import DeploymentAddresses
from libs.local_stack import stack_json
from libs.monitoring.collector import StatusCollector, failing_tasks
from libs.monitoring.health_problems import HealthProblem, as_json, is_noteworthy, notes_of, problems_of
from libs.monitoring.lag import ProjectionName
from libs.monitoring.status import (
    Away,
    GenerationStatus,
    PartitionStatus,
    ProcessStatus,
    ProjectionTotals,
    Status,
    moment,
)
from libs.tally.errors import TallyError
from libs.tally.time_conversion import timestamp
from libs.telemetry.redaction import redacted
from services.cli.command_decorator import DataDir, command
from services.cli.deployment_discovery import DATA_DIR
from services.cli.exit_codes import ExitCode
from services.cli.present_servers import FIND_S, open_present
from services.cli.render import Block, Rows

EVERY_S: Final = 1.0

Description = Callable[[], Mapping[str, Any]]
"""Returns the current contents of stack.json."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A status; `everything`: all partitions are shown, `repeated`: others follow."""

    status: Status
    everything: bool = False
    repeated: bool = False

    def canonical(self) -> bytes:
        return orjson.dumps(as_json(self.status))


@dataclass(frozen=True, slots=True)
class FailedReading:
    """A failed reading, and the last successful one."""

    at: str | None
    error: str
    last: Reading | None = field(metadata=HIDDEN)


async def read_status(deployment: Deployment) -> Status:
    """Read the status once. Raises `LogUnavailable`, `LogChanged`, `ViewsUnavailable` and `StorageUnavailable`."""
    return await StatusCollector(deployment).collect(await read_parts(deployment.description))


async def read_present_status(addresses: DeploymentAddresses) -> Status:
    """Read the status of the servers that answer, with the names of the others."""
    async with open_present(addresses) as servers:
        away = [
            Away(f"{server} {each.address}", f"away: {each.refusal or 'does not answer'}")
            for server, found in (("Kafka", servers.away_brokers), ("Valkey", servers.away_valkeys))
            for each in found
        ]
        try:
            if servers.log_answers and servers.views_answer:
                reading = StatusCollector(servers.deployment).collect()
                parts, status = await asyncio.gather(read_parts(addresses.description), reading)
                return replace(status, parts=parts, away=[*away, *status.away])
        except TallyError as error:
            if error.retry_after_s is None:
                raise
            away.append(Away("views", f"away: {error}"))
        parts = await read_parts(addresses.description)
        return Status(time.time_ns() // 1_000_000, [], parts, [], away)


async def readings(
    deployment: Deployment, description: Description, *, everything: bool = False
) -> AsyncGenerator[Reading | FailedReading, None]:
    """Yield a reading every second, without end."""
    collector, last = StatusCollector(deployment), None
    while True:
        began = time.monotonic()
        try:
            last = Reading(await collector.collect(await read_parts(description())), everything, repeated=True)
            yield last
        except TallyError as error:
            yield FailedReading(moment(time.time_ns() // 1_000_000), redacted(str(error)), last)
        await asyncio.sleep(max(0.0, began + EVERY_S - time.monotonic()))


def parts_of(description: Mapping[str, Any]) -> list[ProcessStatus]:
    restarts = description.get("restarts", {})
    pids = description.get("pids", {}).items()
    return [ProcessStatus(name, pid, _alive(pid), restarts_at=restarts.get(name)) for name, pid in pids]


async def read_parts(description: Mapping[str, Any]) -> list[ProcessStatus]:
    """Return the processes in stack.json with their failing tasks; external servers are not included."""
    parts = parts_of(description)
    urls = description.get("metrics_urls", {})
    projectors = {name: url for name, url in urls.items() if name.startswith("projector")}
    found = await asyncio.gather(*(failing_tasks([url]) for url in projectors.values()))
    failing = dict(zip(projectors, found, strict=True))
    return [replace(part, failing=failing.get(part.name, part.failing)) for part in parts]


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


Cells = dict[str, object]

UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60))
DAY: Final = len("2026-01-01")


def status_text(reading: Reading | FailedReading) -> Iterator[Block]:
    """Yield the most important first: a terminal may be too low for all."""
    last = reading if isinstance(reading, Reading) else reading.last
    if isinstance(reading, FailedReading):
        yield Text(f"{reading.at}: nothing could be read: {reading.error}", style="bold red")
        yield Text("The last successful reading:\n" if last else "", style="dim")
    if last is not None:
        yield from _status(last.status, last.everything)
    if not isinstance(reading, Reading) or reading.repeated:
        yield ""


def _status(status: Status, everything: bool) -> Iterator[Block]:
    yield from _verdict(status, problems_of(status))
    yield ""
    yield Rows(_shortened(_projection_cells(status, everything=everything), moment(status.at) or ""), fit=True)
    if generations := _generation_cells(status):
        yield ""
        yield Rows(generations, fit=True)
        yield from (Text(note, style="dim") for note in notes_of(status))
    if status.sealed and everything:
        yield ""
        yield Rows(_sealed_cells(status), fit=True)
    elif status.sealed:
        yield ""
        yield f"Sealed contests: {len(status.sealed):,}"
    yield Text(f"As of {moment(status.at)}.", style="dim")


def _verdict(status: Status, problems: Sequence[HealthProblem]) -> Iterator[Text]:
    parts = ", ".join(part.name for part in status.parts if part.alive)
    if not problems:
        yield Text.assemble(("All is well", "green"), f"; {parts} alive" if parts else "")
    for one in problems:
        yield Text.assemble((f"{one.where}: ", "bold red"), one.detail, (f"; {one.remedy}", "dim"))


def _projection_cells(status: Status, *, everything: bool) -> list[Cells]:
    """Return each projection's totals, then its noteworthy partitions, or all."""
    found = []
    for projection in filter(status.of, ProjectionName):
        totals = status.totals(projection)
        gates = "" if totals.shut is None else f"{totals.shut} paused" if totals.shut else "open"
        found.append(_cells(projection, "all", totals, gates))
    for row in status.rows:
        if everything or is_noteworthy(row):
            gate = "" if row.open is None else "open" if row.open else "paused"
            found.append(_cells(row.projection, str(row.partition), row, gate))
    return found


def _cells(projection: str, partition: str, of: ProjectionTotals | PartitionStatus, gate: str) -> Cells:
    """Return the cells, the most important first: a narrow terminal omits the last ones."""
    row = of if isinstance(of, PartitionStatus) else None
    return {
        "projection": projection,
        "partition": partition,
        "position": of.position,
        "lag": of.lag,
        "behind": duration(of.lag_s),
        "voting": gate,
        "pending": of.pending,
        "quar": of.quarantined,
        "over": of.overruled,
        "last event": moment(of.last_event) or "-",
        **({} if of.processed_per_s is None else {"rec/s": f"{of.processed_per_s:,.0f}"}),
        "oldest": "" if of.oldest_pending_s is None else duration(of.oldest_pending_s),
        "fenced": of.fenced,
        "dup": of.duplicates,
        "dropped": of.dropped,
        "end": of.end,
        "generation": row and row.generation,
        "stalled since": (row and moment(row.stalled_since)) or "",
    }


def _generation_cells(status: Status) -> list[Cells]:
    return [_one_generation(one) for one in status.beside]


def _one_generation(one: GenerationStatus) -> Cells:
    return {
        "projection": one.projection,
        "generation": one.generation,
        "state": one.state,
        "partitions": one.partitions,
        "position": one.processed,
        "behind live": one.behind,
        "done": f"{one.processed / max(1, one.end):.1%}",
        "left": "" if one.left_s is None else duration(one.left_s),
    }


def _sealed_cells(status: Status) -> list[Cells]:
    return [
        {
            "contest": one.contest,
            "title": one.title,
            "closing": str(one.seal.seq),
            "sealed at": timestamp(one.seal.sealed_at) or "",
            "sha256": one.seal.sha256,
        }
        for one in status.sealed
    ]


def _shortened(rows: Sequence[Cells], now: str) -> list[Cells]:
    """Abbreviate times (today: the time, other days: the date) and the column `partition`."""
    return [
        {("part" if name == "partition" else name): _time(str(value), now) if name == "last event" else value
         for name, value in row.items()}
        for row in rows
    ]  # fmt: skip


def _time(text: str, now: str) -> str:
    return text[DAY + 1 : DAY + 9] if text[:DAY] == now[:DAY] else text[:DAY]


def duration(seconds: float) -> str:
    """Return the duration in its largest unit and the next smaller one."""
    if seconds < 60:
        return f"{seconds:.1f}s" if seconds else "0s"
    for (unit, size), (smaller, rest) in zip(UNITS, [*UNITS[1:], ("s", 1)], strict=True):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}{int(seconds % size // rest):02d}{smaller}"
    raise AssertionError("a minute is the smallest unit")


def _ending(reading: Reading | FailedReading) -> ExitCode:
    if not isinstance(reading, Reading) or reading.status.away:
        return ExitCode.SERVER_AWAY
    return ExitCode.PROBLEM if problems_of(reading.status) else ExitCode.FINE


@command(text=status_text, exit_code=_ending, redraw="watch", finds_topics=False)
async def status(
    deployment: Deployment,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second, until Ctrl-C.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show all partitions, not only those with a problem.")
    ] = False,
    data_dir: DataDir = DATA_DIR,
) -> AsyncGenerator[Reading | FailedReading, None]:
    """Show the lag of all views, whether votes are accepted, quarantine, and the state of the processes.

    The exit code is 3 if a server is away; it is named, and the others are read. It is 1 if a problem needs an
    operator; each is printed: a process is dead, or a task of the
    projector stopped or failing; a view is stalled (no available record processed for over 10 s), or behind the
    log's end; voting is paused, or a vote pending for over 10 s; a generation (copy of the views) is broken;
    accepted votes were overruled; records are in quarantine and not dropped. After a restart voting is paused for
    some seconds. A single reading cannot distinguish a stalled view from one that catches up: --watch can. --watch
    ends with 0.

    `lag` is in records; `behind` is the age of the first record not processed yet, by the broker's clock. --json
    shows all partitions, with --watch one line per second.
    """
    if not watch:
        yield Reading(await read_present_status(deployment.addresses), everything)
        return
    with suppress(TallyError, TimeoutError):
        await asyncio.wait_for(deployment.find_topics(), FIND_S)
    try:
        async for reading in readings(deployment, lambda: stack_json.read(data_dir) or {}, everything=everything):
            yield reading
    except asyncio.CancelledError:
        raise typer.Exit from None
