"""Measures how fast a projector folds, against its own loop without a fold, and the ledger's bytes a voter.

`python -m tests.benchmarks.bench_projector [events]`: by voters who cast three votes each, for 100 participants,
in 16 partitions, exact uniques included; produced first, then folded by one process from the beginning.
"""

import asyncio
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

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
from libs.projection.projection import Projection
from libs.projection.projector import Projector
from libs.projection.settings import VOTES, ProjectorSettings
from libs.projection.votes import VotesProjection
from libs.tally.events import Fence, VoteCast
from libs.views.address_counters import AddressCounters
from libs.views.functions import load_functions, open_valkey
from libs.views.votes import VoteViews
from tests.benchmarks.stack import own_servers

NAMESPACE = "bench"
INCARNATION = 1
PARTICIPANTS = [f"{number:024x}" for number in range(100)]


class Nothing:
    """The ceiling: the loop and the decoding, without a view."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.positions: dict[int, Position] = {}
        self.fresh = None

    async def position(self, partition: int) -> Position | None:
        return self.positions.get(partition)

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> None:
        vote_codec.decode_many([record.value for record in records])
        self.positions[partition] = Position(start.log_id, records[-1].offset + 1)


async def produce(settings: KafkaSettings, topic: Topic, events: int) -> None:
    writer = LogWriter(settings)
    await writer.start()
    for partition in range(topic.partitions):
        await writer.append(topic.name, partition, vote_codec.encode(Fence(INCARNATION)), deadline_s=30)
    for at in range(0, events, 3_000):
        futures = []
        for number in range(at, min(at + 3_000, events), 3):
            voter = pseudonym(b"secret", "voter", str(number))
            partition = topic.partition_of(voter)
            for participant in random.sample(PARTICIPANTS, 3):
                value = vote_codec.encode(cast(voter, participant))
                futures.append(writer.submit(topic.name, partition, value, voter.encode(), deadline_s=60))
        await asyncio.gather(*futures)
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
    settings: KafkaSettings, topic: Topic, projection: Projection, ends: dict[int, int], group: str
) -> float:
    """Events a second, from the first fold to the last."""
    projector = Projector(projection, settings, ProjectorSettings(), VOTES, group=group)
    task = asyncio.create_task(projector.run())

    async def until(reached: Callable[[int, int], bool]) -> float:
        while True:
            found = {fold.partition: fold.position.offset for fold in projector.folds if fold.position is not None}
            if reached(sum(found.values()), sum(ends.values())):
                return time.perf_counter()
            await asyncio.sleep(0.005)

    begun = await until(lambda found, _: found > 0)
    done = await until(lambda found, end: found >= end)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return sum(ends.values()) / (done - begun)


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
        views, addresses = VoteViews(valkey, NAMESPACE), AddressCounters(valkey, NAMESPACE)
        ceiling = await fold(settings, topic, Nothing(topic), ends, "nothing")
        ours = await fold(settings, topic, VotesProjection(topic, views, addresses), ends, "votes")
        print(f"folded into Valkey {ours:8.0f} events/s")
        print(f"decoded only       {ceiling:8.0f} events/s   ratio {ours / ceiling:.2f}")
        async with Redis.from_url(servers.valkey) as redis:
            sizes = [
                await redis.memory_usage(f"{NAMESPACE}:{{{p}}}:g1:voters:contest", samples=0) or 0
                for p in range(topic.partitions)
            ]
        print(f"ledger             {sum(sizes) / (events / 3):8.0f} bytes a voter with three votes")
        await valkey.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300_000))
