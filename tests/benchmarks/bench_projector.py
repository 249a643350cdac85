"""Measures how fast a projector folds and its CPU time, against its loop without a fold, and the ledger's size.

`python -m tests.benchmarks.bench_projector [events]`: the part of `bench_fold` without peers. The events are
produced first, then folded by one process from the beginning.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated

import typer
import uvloop
from redis.asyncio import Redis

from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import Topic, votes_topic
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.local_stack.servers import Addresses
from libs.projection.projection_interface import Projection
from libs.projection.projector import Projector
from libs.projection.settings import VOTES, ProjectorSettings
from libs.projection.votes_projection import VotesProjection
from libs.tally.errors import ViewsUnavailable
from libs.views.generations.generations import Witness
from libs.views.valkey.function_loading import load_functions, open_valkey
from libs.views.valkey.partition_reads import Group, Mark
from libs.views.votes.address_counters import AddressCounters
from libs.views.votes.votes_apply_items import fold_items
from libs.web.server.http_service import tune_garbage_collector
from tests.benchmarks.alone import show
from tests.benchmarks.cpu import CpuMeter
from tests.benchmarks.measurement import OURS, Measurement, Party, Run
from tests.benchmarks.stack import own_servers
from tests.benchmarks.votes_log import contest_name, produce
from tests.support.clients.vote_views import VoteViews

NAMESPACE = "bench"
PARTS = "projector", "Valkey", "Kafka"


class Nothing:
    """The ceiling: the loop and the decoding, without a view."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.positions: dict[int, Position] = {}
        self.fresh = None
        self.live = self

    def groups(self, partitions: Iterable[int]) -> list[Group]:
        return [tuple(partitions)]

    async def marks(self, group: Group) -> Mapping[int, Mark | ViewsUnavailable]:
        return {partition: Mark(self.positions.get(partition), 0) for partition in group}

    async def position(self, partition: int) -> Position | None:
        return self.positions.get(partition)

    async def witness(self, partition: int) -> Witness | None:
        return None

    async def begin_again(self, partition: int, stored: Position, first_lost: int) -> bool:
        return False

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> bool:
        fold_items(records)
        self.positions[partition] = Position(start.log_id, records[-1].offset + 1)
        return False

    async def clean_up(self, _: int) -> bool:
        return False


async def fold(
    settings: KafkaSettings,
    topic: Topic,
    projection: Projection,
    ends: dict[int, int],
    group: str,
    *,
    folded: int | None = None,
) -> Run:
    """Fold all events by a projector in this process; measured from its first fold to its last.

    With `folded`, so many events are in the views already, and the rest is measured from the projector's start: of
    few events it reads most before its first fold.
    """
    before = CpuMeter(own="projector")
    projector = Projector(projection, settings, ProjectorSettings(), VOTES, group=group)
    task = asyncio.create_task(projector.run())
    events = sum(ends.values())

    async def until(wanted: int) -> int:
        while True:
            found = sum(fold.position.offset for fold in projector.folds if fold.position is not None)
            if found >= wanted:
                return found
            if task.done():
                await task
            await asyncio.sleep(0.01)

    first = await until(1) if folded is None else folded
    meter, begun = CpuMeter(own="projector") if folded is None else before, time.perf_counter()
    await until(events)
    took_s, cpu_us = time.perf_counter() - begun, meter.each_us(events - first, PARTS)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return Run((events - first) / took_s, cpu_us)


async def fold_all(addresses: Addresses, topic: Topic, again: int = 0, *, folded: int | None = None) -> Run:
    """Fold the topic into views, as the projector does; each `again` into views of its own. See `fold`."""
    settings = KafkaSettings(kafka_bootstrap_servers=addresses.kafka)
    namespace, valkey = f"{NAMESPACE}{again}", open_valkey(addresses.valkey)
    await load_functions(valkey)
    tune_garbage_collector()  # as the projector's process does
    views, counters = VoteViews(valkey, namespace, topic.partitions), AddressCounters(valkey, namespace)
    projection = VotesProjection(topic, views, counters)
    try:
        ends = await ends_of(settings, topic)
        return await fold(settings, topic, projection, ends, f"votes{again}", folded=folded)
    finally:
        await valkey.close()


async def fold_nothing(addresses: Addresses, topic: Topic, again: int = 0) -> Run:
    """The ceiling: read and decode the topic."""
    settings = KafkaSettings(kafka_bootstrap_servers=addresses.kafka)
    return await fold(settings, topic, Nothing(topic), await ends_of(settings, topic), f"nothing{again}")


async def ends_of(settings: KafkaSettings, topic: Topic) -> dict[int, int]:
    async with LogReader(settings) as reader:
        return await reader.end_offsets(topic.name, range(topic.partitions))


async def ledger_bytes(url: str, partitions: int, again: int = 0) -> int:
    """Return the memory of all voters' ledgers of the contest."""
    views = VoteViews(open_valkey(url), f"{NAMESPACE}{again}", partitions)
    async with Redis.from_url(url) as redis:
        keys = [f"{views._base(partition)}:g1:voters:{contest_name(0)}" for partition in range(partitions)]
        return sum([await redis.memory_usage(key, samples=0) or 0 for key in keys])


async def measure(events: int) -> list[Measurement]:
    async with own_servers() as servers:
        topic = votes_topic(NAMESPACE, 16)
        settings = KafkaSettings(kafka_bootstrap_servers=servers.kafka)
        await create_topics(settings, [topic])
        await produce(settings, topic, events)
        ceiling = Party("read and decoded only", [await fold_nothing(servers, topic)])
        ours = Party(OURS, [await fold_all(servers, topic)])
        ledger = await ledger_bytes(servers.valkey, topic.partitions) / (events / 3)
        return [
            Measurement("fold", "events/s", "higher", ours, ceiling=ceiling),
            Measurement("a voter's ledger, three votes", "bytes", "lower", Party(OURS, [Run(ledger)])),
        ]


def main(events: Annotated[int, typer.Argument(help="Votes to fold.")] = 300_000) -> None:
    show("Projector", uvloop.run(measure(events)))


if __name__ == "__main__":
    typer.run(main)
