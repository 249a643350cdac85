"""How far everything is: the views' positions against the log's own ends."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from libs.contracts.log import Position
from libs.contracts.topics import CATALOGUE_PARTITIONS, catalogue_topic, test_world, votes_topic
from libs.kafka.log import LogReader
from libs.views.catalogue import CatalogueViews
from libs.views.client import Valkey
from libs.views.functions import open_valkey
from libs.views.states import PartitionState
from libs.views.votes import VoteViews
from services.operations.connect import Stack


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
