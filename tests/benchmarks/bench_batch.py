"""Batch POST against a bare aiokafka loop that encodes, keys and produces the same records.

`python -m tests.benchmarks.bench_batch [rounds]`: eight clients posting batches of 1,000, one gateway; the loop is
one process that awaits nothing but room, acks=all and idempotent like ours.
"""

import asyncio
import sys
import time
from dataclasses import replace
from typing import Any

import httpx
import orjson
from aiokafka import AIOKafkaProducer

from libs.contracts.codec import vote_codec
from libs.contracts.topics import votes_topic
from libs.tally.events import VoteCast
from tests.benchmarks.measurement import median
from tests.benchmarks.stack import whole_service
from tests.support.voting import Contest, new_id, running

VOTES = 40_000
BATCH = 1_000
CLIENTS = 8


async def post_batches(contest: Contest) -> float:
    """Votes accepted a second, over HTTP."""
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
        for at in range(0, VOTES, BATCH)
    ]
    begun = time.perf_counter()
    await asyncio.gather(*(post(contest, bodies[number::CLIENTS]) for number in range(CLIENTS)))
    return VOTES / (time.perf_counter() - begun)


async def post(contest: Contest, bodies: list[bytes]) -> None:
    async with httpx.AsyncClient(
        base_url=contest.client.base_url, headers=contest.client.headers, timeout=60
    ) as client:
        for body in bodies:
            answer = await client.post(f"{contest.path}/votes/batch", content=body, headers=JSON)
            assert answer.content.count(b'"status":201') == BATCH, answer.text[:300]


JSON = {"content-type": "application/json"}


async def bare_loop(kafka: str, topic: str, event: VoteCast, batch_bytes: int | None = None) -> float:
    """Records acknowledged a second by a loop of `producer.send`, each encoded and keyed as a vote is."""
    batches = {} if batch_bytes is None else {"max_batch_size": batch_bytes}
    producer = AIOKafkaProducer(bootstrap_servers=kafka, acks="all", enable_idempotence=True, **batches)
    await producer.start()
    try:
        begun = time.perf_counter()
        acks: list[Any] = []
        for number in range(VOTES):
            voter = f"{number:022d}"
            value = vote_codec.encode(replace(event, voter=voter))
            acks.append(await producer.send(topic, value, key=voter.encode()))
        await asyncio.gather(*acks)
        return VOTES / (time.perf_counter() - begun)
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


async def main(rounds: int) -> None:
    async with whole_service() as (supervisor, api):
        contest = await api.contest(participants=100, body=running(free={"max_participant": 3}))
        topic = votes_topic(supervisor.stack["namespace"], supervisor.stack["partitions"]).name
        await post_batches(contest)
        loops = {"bare aiokafka loop": None, "the same, batches of 512 KiB": 512 * 1024}
        ours: list[float] = []
        bare: dict[str, list[float]] = {name: [] for name in loops}
        for _ in range(rounds):
            ours.append(await post_batches(contest))
            for name, batch_bytes in loops.items():
                kafka = supervisor.stack["kafka"]
                bare[name].append(await bare_loop(kafka, topic, sample(contest), batch_bytes))
        print(f"{'batch POST':28} {median(ours):8.0f} votes/s")
        for name, rates in bare.items():
            ratio = median([a / b for a, b in zip(ours, rates, strict=True)])
            print(f"{name:28} {median(rates):8.0f} records/s   batch POST is {ratio:.2f} of it")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3))
