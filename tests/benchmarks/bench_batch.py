"""Batch POST against a service of the same work, and a bare aiokafka loop that produces the same records.

`python -m tests.benchmarks.bench_batch [rounds]`: eight clients posting batches of 1,000, one gateway or one
process of the peer; the loop is one process that awaits nothing but room, acks=all and idempotent like ours.
"""

import asyncio
import time
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import httpx
import orjson
from aiokafka import AIOKafkaProducer

from libs.contracts.codec import vote_codec
from libs.contracts.topics import votes_topic
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.tally.events import VoteCast
from tests.benchmarks.alone import alone
from tests.benchmarks.bench_votes import NOTES, PARTS, peer
from tests.benchmarks.cpu import CpuMeter
from tests.benchmarks.figures import EQUAL
from tests.benchmarks.load import SETTLE_S
from tests.benchmarks.measurement import OURS, Goal, Measurement, Party, Run, Scale
from tests.benchmarks.stack import whole_service
from tests.support.clients.voting import Contest, new_id, running

BATCH = 1_000
CLIENTS = 8
BARE = "bare aiokafka loop"
LOOPS = {BARE: None, "the same, batches of 512 KiB": 512 * 1024}
JSON = {"content-type": "application/json"}


async def measure(scale: Scale) -> list[Measurement]:
    votes = scale.pick(8_000, 80_000)
    async with whole_service() as (supervisor, api), peer(supervisor, EQUAL) as equal_url:
        contest = await api.contest(participants=100, body=running(free={"max_participant": 3}))
        topic = votes_topic(supervisor.stack["namespace"], supervisor.stack["partitions"]).name
        services = {OURS: str(contest.client.base_url), EQUAL: equal_url}
        for url in services.values():
            await post_batches(contest, url, 8_000, ())
        served: dict[str, list[Run]] = {name: [] for name in services}
        loops: dict[str, list[Run]] = {name: [] for name in LOOPS}
        for _ in range(scale.rounds):
            for name, url in services.items():
                served[name].append(await post_batches(contest, url, votes, PARTS[name]))
            for name, batch_bytes in LOOPS.items():
                event = sample(contest)
                loops[name].append(await bare_loop(supervisor.stack["kafka"], topic, event, votes, batch_bytes))
    ceiling, *others = [
        Party(name, runs, "no answers, limits, vote ids or counts") for name, runs in loops.items()
    ]
    ours, peers = Party(OURS, served[OURS]), [Party(EQUAL, served[EQUAL], NOTES[EQUAL]), *others]
    name = f"batches of {BATCH:,} votes, {CLIENTS} clients"
    return [Measurement(name, "votes/s", "higher", ours, peers, ceiling, [Goal(0.5, BARE)])]


async def post_batches(contest: Contest, url: str, votes: int, parts: Collection[str]) -> Run:
    """Post votes of new voters, three each, to the service at `url`, and fold them."""
    base = new_id()
    bodies = [
        orjson.dumps(
            {
                "votes": [
                    {"participant_key": contest.participants[n % 100], "voter_id": f"{base}-{n // 3}"}
                    for n in range(at, at + BATCH)
                ]
            }
        )
        for at in range(0, votes, BATCH)
    ]
    meter, begun = CpuMeter(), time.perf_counter()
    await asyncio.gather(*(post(contest, url, bodies[number::CLIENTS]) for number in range(CLIENTS)))
    took_s = time.perf_counter() - begun
    await asyncio.sleep(SETTLE_S)
    return Run(votes / took_s, meter.each_us(votes, parts))


async def post(contest: Contest, url: str, bodies: list[bytes]) -> None:
    async with httpx.AsyncClient(base_url=url, headers=contest.client.headers, timeout=60) as client:
        for body in bodies:
            answer = await client.post(f"{contest.path}/votes/batch", content=body, headers=JSON)
            assert answer.content.count(b'"status":201') == BATCH, answer.text[:300]


async def bare_loop(kafka: str, topic: str, event: VoteCast, votes: int, batch_bytes: int | None) -> Run:
    """Send records by `producer.send`, each encoded and keyed as a vote is, until all are acknowledged."""
    batches = {} if batch_bytes is None else {"max_batch_size": batch_bytes}
    producer = AIOKafkaProducer(
        **connection(KafkaSettings(kafka_bootstrap_servers=kafka)), acks="all", enable_idempotence=True, **batches
    )
    await producer.start()
    try:
        meter, begun = CpuMeter(own="loop"), time.perf_counter()
        acks: list[Any] = []
        for number in range(votes):
            voter = f"{number:022d}"
            value = vote_codec.encode(replace(event, voter=voter))
            acks.append(await producer.send(topic, value, key=voter.encode()))
        await asyncio.gather(*acks)
        return Run(votes / (time.perf_counter() - begun), meter.each_us(votes, ("loop", "Kafka")))
    finally:
        await producer.stop()


def sample(contest: Contest) -> VoteCast:
    """A record of the size that a vote has; fenced off, so it counts nowhere."""
    return VoteCast(
        contest=contest.key,
        voter="v" * 22,
        anonymous=False,
        vote_id="01a1fc60-961c-77d1-b44f-b3dd85422493",
        content="c" * 11,
        source="c-free",
        choices=((contest.participants[0], 1),),
        accepted_at=1_790_000_000_000_000,
        incarnation=1,
        config=1,
        max_participant=3,
        max_contest=-1,
        epoch=0,
        remaining_participant=2,
        remaining_contest=None,
        next_free_vote_at=None,
        receipt="r" * 72,
    )


if __name__ == "__main__":
    alone("Batch POST", measure)
