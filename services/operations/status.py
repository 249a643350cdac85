"""`tally status`: how far everything is, against the log's own ends."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from libs.contracts.log import Position
from libs.contracts.topics import CATALOGUE_PARTITIONS, catalogue_topic, test_world, votes_topic
from libs.kafka.log import LogReader
from libs.views.catalogue import CatalogueViews
from libs.views.client import Valkey
from libs.views.functions import open_valkey
from libs.views.votes import PartitionState, VoteViews
from services.operations.connect import DATA_DIR, Stack, find_stack
from services.operations.running import AsJson, DataDir, Ending, print_json, run


@dataclass(frozen=True, slots=True)
class VotesPartition:
    """One partition of the votes log and its view. `lag` counts records that are not folded yet."""

    partition: int
    position: int
    end: int
    lag: int
    open: bool
    incarnation: int
    pending: int
    oldest_pending_s: float | None
    fenced: int
    duplicates: int
    overruled: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class CataloguePartition:
    """One partition of a world's catalogue log and its view."""

    namespace: str
    partition: int
    position: int
    end: int
    lag: int


@dataclass(frozen=True, slots=True)
class Part:
    """A process of the local stack."""

    name: str
    pid: int
    alive: bool


@dataclass(frozen=True, slots=True)
class Status:
    votes: list[VotesPartition]
    catalogue: list[CataloguePartition]
    parts: list[Part]

    @property
    def lag(self) -> int:
        return sum(row.lag for row in self.votes) + sum(row.lag for row in self.catalogue)

    def as_json(self) -> dict[str, Any]:
        columns = "lag", "pending", "fenced", "duplicates", "overruled", "quarantined"
        totals = {name: sum(getattr(row, name) for row in self.votes) for name in columns}
        totals["catalogue_lag"] = sum(row.lag for row in self.catalogue)
        totals["shut"] = sum(not row.open for row in self.votes)
        return asdict(self) | {"totals": totals}


def status(data_dir: DataDir = DATA_DIR, as_json: AsJson = False) -> None:
    """Positions, lag, gates and what was set aside, partition by partition, and whether the parts live."""

    async def work() -> Ending:
        found = await read_status(find_stack(data_dir))
        if as_json:
            print_json(found.as_json())
        else:
            show(found)
        return Ending.FINE if all(part.alive for part in found.parts) else Ending.PROBLEM

    run(work())


async def read_status(stack: Stack) -> Status:
    """Raises `LogUnavailable` and `ViewsUnavailable`."""
    valkey = open_valkey(stack.valkey)
    try:
        async with LogReader(stack.kafka_settings) as reader:
            votes = await votes_status(reader, valkey, stack)
            worlds = stack.namespace, test_world(stack.namespace)
            catalogue = [row for world in worlds for row in await _catalogue(reader, valkey, world)]
    finally:
        await valkey.close()
    return Status(votes, catalogue, parts_of(stack.description.get("pids", {})))


async def votes_status(reader: LogReader, valkey: Valkey, stack: Stack) -> list[VotesPartition]:
    """Ends are asked for after positions, so no position is past its end, and none looks better than it is."""
    topic, views = votes_topic(stack.namespace, stack.partitions), VoteViews(valkey, stack.namespace)
    partitions = range(topic.partitions)
    states = await asyncio.gather(*(views.state(partition) for partition in partitions))
    ends = await reader.end_offsets(topic.name, partitions)
    return [_votes(partition, state, ends[partition]) for partition, state in enumerate(states)]


def parts_of(pids: Mapping[str, int]) -> list[Part]:
    return [Part(name, pid, _alive(pid)) for name, pid in pids.items()]


def show(found: Status) -> None:
    """A table on a terminal, a line a partition elsewhere."""
    console = Console(highlight=False, soft_wrap=True)
    votes = _table(
        "Votes", "part position end lag gate incarnation pending oldest fenced doubles overruled poison"
    )
    for row in found.votes:
        oldest = "-" if row.oldest_pending_s is None else f"{row.oldest_pending_s:.1f} s"
        gate = "open" if row.open else "shut"
        where = row.partition, row.position, row.end, row.lag, gate, row.incarnation, row.pending, oldest
        votes.add_row(*map(str, (*where, row.fenced, row.duplicates, row.overruled, row.quarantined)))
    totals = found.as_json()["totals"]
    shut = f"{totals['shut']} shut" if totals["shut"] else "all open"
    settled = (totals[name] for name in ("fenced", "duplicates", "overruled", "quarantined"))
    votes.add_section()
    votes.add_row("all", "", "", str(totals["lag"]), shut, "", str(totals["pending"]), "", *map(str, settled))
    catalogue = _table("Catalogue", "topic partition position end lag")
    for at in found.catalogue:
        name = catalogue_topic(at.namespace).name
        catalogue.add_row(name, *map(str, (at.partition, at.position, at.end, at.lag)))
    parts = _table("Parts", "name pid state")
    for part in found.parts:
        parts.add_row(part.name, str(part.pid), "alive" if part.alive else "dead")
    for table in (votes, catalogue, parts):
        if console.is_terminal and table.row_count:
            console.print(table, soft_wrap=False)
        elif table.row_count:
            _print_plainly(console, table)


def _table(title: str, columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, header_style="dim", padding=(0, 1, 0, 0))
    for column in columns.split():
        table.add_column(column, justify="left" if column in ("topic", "name", "gate", "state") else "right")
    return table


def _print_plainly(console: Console, table: Table) -> None:
    names = [str(column.header) for column in table.columns]
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        values = " ".join(f"{name}={value}" for name, value in zip(names, cells, strict=True) if value)
        console.out(f"{str(table.title).lower()}: {values}")


async def _catalogue(reader: LogReader, valkey: Valkey, namespace: str) -> list[CataloguePartition]:
    views, partitions = CatalogueViews(valkey, namespace), range(CATALOGUE_PARTITIONS)
    positions = await asyncio.gather(*(views.position(partition) for partition in partitions))
    ends = await reader.end_offsets(catalogue_topic(namespace).name, partitions)
    return [
        CataloguePartition(namespace, partition, offset, ends[partition], ends[partition] - offset)
        for partition, offset in enumerate(map(_offset, positions))
    ]


def _votes(partition: int, state: PartitionState, end: int) -> VotesPartition:
    oldest = state.oldest_pending
    return VotesPartition(
        partition=partition,
        position=state.position.offset,
        end=end,
        lag=end - state.position.offset,
        open=state.open,
        incarnation=state.incarnation,
        pending=state.pending,
        oldest_pending_s=None if oldest is None else max(0, state.now - oldest) / 1_000_000,
        fenced=state.fenced,
        duplicates=state.duplicates,
        overruled=state.overruled,
        quarantined=state.quarantined,
    )


def _offset(position: Position | None) -> int:
    return 0 if position is None else position.offset


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
