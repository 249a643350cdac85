"""Estimates a replay's events, duration and memory."""

import asyncio
import time
from collections.abc import Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from libs.contracts.codec import vote_codec
from libs.deployment.deployment import Deployment
from libs.kafka.reader import Extent
from libs.replay.targets import ReplayTarget, unfinished
from libs.views.generations.generations import ProjectionName
from libs.views.valkey.client import Valkey, read_info
from libs.views.valkey.function_loading import load_functions

SAMPLE: Final = 20_000
"""Number of votes decoded to estimate the speed of this machine."""
DECODING: Final = 0.4
"""Share of decoding in a replay's time (tests/benchmarks/bench_replay.py)."""


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """Plan for one projection: generation `resumes` has `processed` of the `events`; None if a new one is begun.

    `partitions` is None for all. `schema` is the stored layout, `code_schema` this version's; `kept` counts the
    generations besides the live one.
    """

    projection: ProjectionName
    partitions: Collection[int] | None
    events: int
    processed: int
    memory_bytes: int
    schema: int
    code_schema: int
    resumes: int | None
    live: tuple[int, ...]
    kept: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan for all targets; `free_bytes` is the memory that Valkey may still use."""

    parts: Sequence[TargetPlan]
    events_per_s: float
    free_bytes: int

    @property
    def seconds(self) -> float:
        return sum(part.events - part.processed for part in self.parts) / max(self.events_per_s, 1)

    @property
    def memory_bytes(self) -> int:
        """Total memory of the new generations: they are built one by one, but all kept until dropped."""
        return sum(part.memory_bytes for part in self.parts if part.resumes is None)

    @property
    def fits(self) -> bool:
        return self.memory_bytes <= self.free_bytes


async def make_plan(deployment: Deployment, targets: Sequence[ReplayTarget], *, outdated: bool = False) -> Plan:
    """Plan the replay of `targets`, or of those with another layout.

    Raises `LogUnavailable` and `ViewsUnavailable`.
    """
    await load_functions(deployment.valkey)
    parts = [await _part(deployment, target) for target in targets]
    if outdated:
        parts = [part for part in parts if part.schema != part.code_schema]
    return Plan(parts, await _events_per_s(deployment), await _free_bytes(deployment.valkey))


async def _part(deployment: Deployment, target: ReplayTarget) -> TargetPlan:
    generations = deployment.projections[target.projection]
    partitions = target.of(generations.topic.numbers)
    found = await generations.read_all()
    ends = await deployment.reader.end_offsets(generations.topic.name, partitions)
    live = sorted({found[partition].live.number for partition in partitions})
    resumes = unfinished(found, partitions)
    memory = sum([await generations.memory(number) for number in live])
    return TargetPlan(
        projection=target.projection,
        partitions=target.partitions,
        events=sum(ends.values()),
        processed=0 if resumes is None else sum(found[partition].offset_of(resumes) for partition in partitions),
        memory_bytes=memory,
        schema=min(found[partition].live.schema for partition in partitions),
        code_schema=max(found[partition].schema for partition in partitions),
        resumes=resumes,
        live=tuple(live),
        kept=len({number for partition in partitions for number in found[partition].others}),
    )


async def _events_per_s(deployment: Deployment) -> float:
    """Estimate the events per second by decoding a sample of the votes; see `DECODING`."""
    topic, reader = deployment.votes, deployment.reader
    ends = await reader.end_offsets(topic.name, topic.numbers)
    partition = max(ends, key=lambda one: ends[one])
    values: list[bytes] = []
    ranges = {partition: Extent(0, min(ends[partition], SAMPLE))}
    async with aclosing(reader.records(topic.name, ranges)) as batches:
        async for _, records in batches:
            values += [record.value for record in records]
    began = time.perf_counter()
    vote_codec.decode_many(values)
    return DECODING * len(values) / max(time.perf_counter() - began, 1e-9)


async def _free_bytes(valkey: Valkey) -> int:
    """Return the free memory of the shards, which hold equal parts: so many times that of the fullest one."""
    shards = await valkey.shards()
    free = []
    for memory in await asyncio.gather(*(read_info(shard.valkey, "memory") for shard in shards)):
        limit = int(memory["maxmemory"]) or int(memory["total_system_memory"])
        free.append(max(0, limit - int(memory["used_memory"])))
    return len(free) * min(free)
