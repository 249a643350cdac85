"""`tally status`: shows positions, lag and gates by partition."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Annotated, Any, Final

import orjson
import psutil
from rich.text import Text
from typer import Exit, Option

from libs.deployment.deployment import Deployment
from libs.deployment.settings import DeploymentAddresses
from libs.local_stack import stack_json
from libs.monitoring.collector import PROCESS_S, StatusCollector, ask_readiness, failing_tasks, longest_stall
from libs.monitoring.health_problems import HealthProblem, as_json, is_noteworthy, notes_of, problems_of
from libs.monitoring.status import (
    Answer,
    Away,
    GenerationStatus,
    PartitionStatus,
    ProcessEnds,
    ProcessStatus,
    ProjectionTotals,
    Status,
    moment,
)
from libs.tally.errors import TallyError
from libs.tally.time_conversion import timestamp
from libs.telemetry.redaction import redacted
from libs.views.generations.generations import ProjectionName
from services.cli.command_decorator import DataDir, command
from services.cli.deployment_discovery import DATA_DIR
from services.cli.output import Block, ExitCode, Result, Rows
from services.cli.present_servers import FIND_S, look, open_present

EVERY_S: Final = 1.0

Description = Callable[[], Mapping[str, Any]]
"""Returns the current contents of stack.json."""


@command(redraw="watch", finds_topics=False)
async def status(
    deployment: Deployment,
    watch: Annotated[bool, Option("--watch", help="Refresh every second, until Ctrl-C.")] = False,
    everything: Annotated[
        bool, Option("--all", help="Show all partitions, not only those with a problem.")
    ] = False,
    data_dir: DataDir = DATA_DIR,
) -> AsyncGenerator[Result, None]:
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
        found = await read_present_status(deployment.addresses)
        code = ExitCode.fine_if(not problems_of(found))
        text = status_text(found, everything=everything)
        yield Result(orjson.dumps(as_json(found)), text, ExitCode.SERVER_AWAY if found.away else code)
        return
    with suppress(TallyError, TimeoutError):
        await asyncio.wait_for(deployment.find_topics(), FIND_S)
    try:
        async for reading in readings(deployment, lambda: stack_json.read(data_dir) or {}, everything=everything):
            yield reading
    except asyncio.CancelledError:
        raise Exit from None


async def read_present_status(addresses: DeploymentAddresses) -> Status:
    """Read the status of the servers that answer, with the names of the others."""
    return await look(partial(_read_once, addresses), is_silent)


def is_silent(status: Status) -> bool:
    """Return whether a server or a process gave no answer."""
    return bool(status.away) or any(part.answer is Answer.SILENT for part in status.parts)


async def _read_once(addresses: DeploymentAddresses, patience: float) -> Status:
    parts = asyncio.ensure_future(read_parts(addresses.description, patience))
    async with open_present(addresses, patience) as servers:
        if servers.wrong is not None:
            raise servers.wrong
        status, unread = Status(time.time_ns() // 1_000_000, [], [], []), list[Away]()
        try:
            if servers.log_answers and servers.views_answer:
                status = await StatusCollector(servers.deployment).collect(within_s=servers.deadline.left_s())
        except TallyError as error:
            if error.retry_after_s is None:
                raise
            unread = [Away("all partitions", f"away: {error}")]
        away = [
            Away(f"{server} {each.address}", f"away: {each.refusal or each.error or 'does not answer'}")
            for server, found in zip(("Kafka", "Valkey"), await servers.away, strict=True)
            for each in found
        ]
        explained = [replace(one, follows=bool(away)) for one in (*unread, *status.away)]
        return replace(status, parts=await parts, away=[*away, *explained])


async def readings(
    deployment: Deployment, description: Description, *, everything: bool = False
) -> AsyncGenerator[Result, None]:
    """Yield a reading every second, without end; after a failed one the text repeats the last successful one."""
    collector, last = StatusCollector(deployment), None
    while True:
        began = time.monotonic()
        try:
            last = await collector.collect(await read_parts(description()))
            yield Result(orjson.dumps(as_json(last)), [*status_text(last, everything=everything), ""])
        except TallyError as error:
            at, reason = moment(time.time_ns() // 1_000_000), redacted(str(error))
            text: list[Block] = [Text(f"{at}: nothing could be read: {reason}", style="bold red")]
            text += [Text("The last successful reading:" if last else "", style="dim"), *([""] if last else [])]
            former = status_text(last, everything=everything) if last else ()
            yield Result({"at": at, "error": reason}, [*text, *former, ""])
        await asyncio.sleep(max(0.0, began + EVERY_S - time.monotonic()))


def parts_of(description: Mapping[str, Any]) -> list[ProcessStatus]:
    ends, restarts = (description.get(name, {}) for name in ("ends", "restarts"))
    return [
        ProcessStatus(
            name, pid, _alive(pid), ends=ProcessEnds(**ends.get(name, {})), restarts_at=restarts.get(name)
        )
        for name, pid in description.get("pids", {}).items()
    ]


async def read_parts(description: Mapping[str, Any], patience: float = 1.0) -> list[ProcessStatus]:
    """Return the processes in stack.json, with how each answers whether it is ready, and with their failing tasks;
    external servers are not included."""
    urls = description.get("metrics_urls", {})
    return await asyncio.gather(*(_asked(part, urls.get(part.name), patience) for part in parts_of(description)))


async def _asked(part: ProcessStatus, metrics_url: str | None, patience: float) -> ProcessStatus:
    if metrics_url is None or not part.alive:
        return part
    (answer, waits_for), failing, (stall_s, stalled_in) = await asyncio.gather(
        ask_readiness(metrics_url.removesuffix("/metrics") + "/readyz", PROCESS_S * patience),
        failing_tasks([metrics_url] if part.name.startswith("projector") else []),
        longest_stall([metrics_url]),
    )
    return replace(
        part, answer=answer, waits_for=waits_for, failing=failing, stall_s=stall_s, stalled_in=stalled_in
    )


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


Cells = dict[str, object]

UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60))
DAY: Final = len("2026-01-01")


def status_text(status: Status, *, everything: bool = False) -> Iterator[Block]:
    """Yield the most important first: a terminal may be too low for all."""
    yield from _verdict(status, problems_of(status))
    yield ""
    yield Rows(_projection_cells(status, everything=everything), fit=True)
    if status.beside:
        yield ""
        yield Rows([_generation(one) for one in status.beside], fit=True)
    yield from (Text(note, style="dim") for note in notes_of(status))
    if status.sealed:
        yield ""
        yield Rows(_sealed_cells(status), fit=True) if everything else f"Sealed contests: {len(status.sealed):,}"
    yield Text(f"As of {moment(status.at)}.", style="dim")


def _verdict(status: Status, problems: Sequence[HealthProblem]) -> Iterator[Text]:
    parts = ", ".join(part.name for part in status.parts if part.alive)
    if not problems:
        yield Text.assemble(("All is well", "green"), f"; {parts} alive" if parts else "")
    for follows, alike in groupby(problems, key=lambda one: one.follows):
        if follows:
            yield Text("Probably their consequences:", style="dim")
        for one in alike:
            yield Text.assemble((f"{one.where}: ", "bold red"), one.detail, (f"; {one.remedy}", "dim"))


def _projection_cells(status: Status, *, everything: bool) -> list[Cells]:
    """Return each projection's totals, then its noteworthy partitions, or all."""
    found, now = [], moment(status.at) or ""
    for projection in filter(status.of, ProjectionName):
        totals = status.totals(projection)
        gates = "" if totals.shut is None else f"{totals.shut} paused" if totals.shut else "open"
        found.append(_cells(projection, "all", totals, gates, now))
    for row in status.rows:
        if everything or is_noteworthy(row):
            gate = "" if row.open is None else "open" if row.open else "paused"
            found.append(_cells(row.projection, str(row.partition), row, gate, now))
    return found


def _cells(projection: str, partition: str, of: ProjectionTotals | PartitionStatus, gate: str, now: str) -> Cells:
    """Return the cells, the most important first: a narrow terminal omits the last ones.

    Of the last event it shows the time today, and the date of another day.
    """
    row, last = of if isinstance(of, PartitionStatus) else None, moment(of.last_event) or "-"
    return {
        "projection": projection,
        "part": partition,
        "position": of.position,
        "lag": of.lag,
        "behind": duration(of.lag_s),
        "voting": gate,
        "pending": of.pending,
        "quar": of.quarantined,
        "over": of.overruled,
        "last event": last[DAY + 1 : DAY + 9] if last[:DAY] == now[:DAY] else last[:DAY],
        **({} if of.processed_per_s is None else {"rec/s": f"{of.processed_per_s:,.0f}"}),
        "oldest": "" if of.oldest_pending_s is None else duration(of.oldest_pending_s),
        "fenced": of.fenced,
        "dup": of.duplicates,
        "dropped": of.dropped,
        "end": of.end,
        "generation": row and row.generation,
        "stalled since": (row and moment(row.stalled_since)) or "",
    }


def _generation(one: GenerationStatus) -> Cells:
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


def duration(seconds: float) -> str:
    """Return the duration in its largest unit and the next smaller one."""
    if seconds < 60:
        return f"{seconds:.1f}s" if seconds else "0s"
    for (unit, size), (smaller, rest) in zip(UNITS, [*UNITS[1:], ("s", 1)], strict=True):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}{int(seconds % size // rest):02d}{smaller}"
    raise AssertionError("a minute is the smallest unit")
