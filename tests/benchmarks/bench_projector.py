"""Measures how fast a projector folds and its CPU time, against its loop without a fold, and the ledger's size.

`python -m tests.benchmarks.bench_projector [events]`: by voters who cast three votes each, for 100 participants,
in 16 partitions, exact uniques included; produced first, then folded by one process from the beginning.
"""

import asyncio
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import uvloop
from redis.asyncio import Redis
from uuid_utils import uuid7

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.pseudonyms import pseudonym, receipt
from libs.contracts.topics import Topic, votes_topic
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.kafka.writer import LogWriter
from libs.projection.projection_interface import Projection
from libs.projection.projector import Projector
from libs.projection.settings import VOTES, ProjectorSettings
from libs.projection.votes_projection import VotesProjection
from libs.tally.events import Fence, VoteCast
from libs.views.address_counters import AddressCounters
from libs.views.client import Valkey, read_info
from libs.views.fold_items import fold_items
from libs.views.functions import load_functions, open_valkey
from libs.views.vote_views import VoteViews
from libs.web.http_service import tune_garbage_collector
from tests.benchmarks.stack import own_servers

NAMESPACE = "bench"
INCARNATION = 1
PARTICIPANTS = [f"{number:024x}" for number in range(100)]


class Costs(NamedTuple):
    """Events a second, and CPU time an event (us) of the projector's process and of Valkey."""

    per_s: float
    projector_us: float
    valkey_us: float

    def __str__(self) -> str:
        cpu = f"CPU {self.projector_us:5.1f} us projector + {self.valkey_us:5.1f} us Valkey"
        return f"{self.per_s:8.0f} events/s   {cpu} = {self.projector_us + self.valkey_us:5.1f} us an event"


class Nothing:
    """The ceiling: the loop and the decoding, without a view."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.positions: dict[int, Position] = {}
        self.fresh = None

    async def position(self, partition: int) -> Position | None:
        return self.positions.get(partition)

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> None:
        fold_items(records)
        self.positions[partition] = Position(start.log_id, records[-1].offset + 1)


async def produce(settings: KafkaSettings, topic: Topic, events: int) -> None:
    writer = LogWriter(settings)
    await writer.start()
    for partition in range(topic.partitions):
        await writer.append(topic.name, partition, vote_codec.encode(Fence(INCARNATION)), deadline_s=30)
    for at in range(0, events, 3_000):
        appends = []
        for number in range(at, min(at + 3_000, events), 3):
            voter = pseudonym(b"secret", "voter", str(number))
            partition = topic.partition_of(voter)
            for participant in random.sample(PARTICIPANTS, 3):
                value = vote_codec.encode(cast(voter, participant))
                appends.append(writer.append(topic.name, partition, value, voter.encode(), deadline_s=60))
        await asyncio.gather(*appends)
    await writer.stop()


def cast(voter: str, participant: str) -> VoteCast:
    vote_id = str(uuid7())
    return VoteCast(
        contest="contest",
        voter=voter,
        anonymous=False,
        vote_id=vote_id,
        content="AAAAAAAAAAA",
        source="c-free",
        choices=((participant, 1),),
        accepted_at=time.time_ns() // 1000,
        incarnation=INCARNATION,
        config=1,
        max_participant=1,
        max_contest=-1,
        epoch=0,
        remaining_participant=0,
        remaining_contest=None,
        next_free_vote_at=None,
        receipt=receipt(b"key", "contest", voter, vote_id),
        platform="ios",
    )


async def fold(
    settings: KafkaSettings, topic: Topic, projection: Projection, ends: dict[int, int], group: str, valkey: Valkey
) -> Costs:
    """Of all events, from the first fold to the last."""
    projector = Projector(projection, settings, ProjectorSettings(), VOTES, group=group)
    task = asyncio.create_task(projector.run())

    async def until(reached: Callable[[int, int], bool]) -> tuple[float, float, float]:
        while True:
            found = {fold.partition: fold.position.offset for fold in projector.folds if fold.position is not None}
            if reached(sum(found.values()), sum(ends.values())):
                cpu = await read_info(valkey, "cpu")
                spent = sum(float(cpu[f"used_cpu_{kind}_main_thread"]) for kind in ("user", "sys"))
                return time.perf_counter(), time.process_time(), spent
            await asyncio.sleep(0.005)

    begun = await until(lambda found, _: found > 0)
    done = await until(lambda found, end: found >= end)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    wall_s, ours_s, valkey_s = (after - before for before, after in zip(begun, done, strict=True))
    events = sum(ends.values())
    return Costs(events / wall_s, ours_s / events * 1e6, valkey_s / events * 1e6)


async def main(events: int) -> None:
    async with own_servers() as servers:
        settings = KafkaSettings(kafka_bootstrap_servers=servers.kafka)
        topic = votes_topic(NAMESPACE, 16)
        await create_topics(settings, [topic])
        await produce(settings, topic, events)
        async with LogReader(settings) as reader:
            ends = await reader.end_offsets(topic.name, range(topic.partitions))
        valkey = open_valkey(servers.valkey)
        await load_functions(valkey)
        views, addresses = VoteViews(valkey, NAMESPACE, 16), AddressCounters(valkey, NAMESPACE)
        tune_garbage_collector()
        ceiling = await fold(settings, topic, Nothing(topic), ends, "nothing", valkey)
        ours = await fold(settings, topic, VotesProjection(topic, views, addresses), ends, "votes", valkey)
        print(f"folded into Valkey {ours}")
        print(f"decoded only       {ceiling}   ratio {ours.per_s / ceiling.per_s:.2f}")
        async with Redis.from_url(servers.valkey) as redis:
            sizes = [
                await redis.memory_usage(f"{views._base(p)}:g1:voters:contest", samples=0) or 0
                for p in range(topic.partitions)
            ]
        print(f"ledger             {sum(sizes) / (events / 3):8.0f} bytes a voter with three votes")
        await valkey.close()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000))
