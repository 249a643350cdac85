"""Memory of voters in Valkey and of the processes: `python -m tests.benchmarks.bench_memory`.

A voter's bytes are the growth of Valkey's `used_memory` by a folded contest, all that belongs to it included, per
voter; the peer is a set of voters per participant and source and a hash of votes per voter, with the same facts.
"""

import psutil
from redis.asyncio import Redis

from libs.contracts.topics import votes_topic
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.local_stack.servers import Addresses
from tests.benchmarks.alone import alone
from tests.benchmarks.bench_projector import fold_all, ledger_bytes
from tests.benchmarks.measurement import OURS, Goal, Measurement, Party, Run, Scale
from tests.benchmarks.stack import own_servers, uvicorn, whole_service
from tests.benchmarks.votes_log import Spread, all_casts, produce

PARTITIONS = 16
GOALS = {1: 160.0, 3: 260.0, 50: 2_500.0}
"""Bytes of a voter with so many votes."""
SET_AND_HASH = "Redis set + hash"
NOTE = "the same facts without positions, timeline and minutes"
PIPELINE = 2_000


async def measure(scale: Scale) -> list[Measurement]:
    found: list[Measurement] = []
    async with own_servers() as addresses:
        for number, (each, bound) in enumerate(GOALS.items()):
            voters = scale.pick(2_000, 30_000) if each < 10 else scale.pick(400, 6_000)
            ours = await folded_bytes(addresses, number, each, voters)
            theirs = await set_and_hash_bytes(addresses, each, voters)
            name = f"a voter with {each} vote{'s' * (each > 1)}"
            peer = Party(SET_AND_HASH, [Run(theirs)], NOTE)
            found.append(Measurement(name, "bytes", "lower", Party(OURS, [ours]), [peer], goals=[Goal(bound)]))
    return [*found, *await process_measurements()]


async def folded_bytes(addresses: Addresses, number: int, each: int, voters: int) -> Run:
    topic, settings = (
        votes_topic(f"memory{number}", PARTITIONS),
        KafkaSettings(kafka_bootstrap_servers=addresses.kafka),
    )
    await create_topics(settings, [topic])
    await produce(settings, topic, each * voters, Spread(each=each))
    async with Redis.from_url(addresses.valkey) as redis:
        before = await used_bytes(redis)
        await fold_all(addresses, topic, number)
        grown = await used_bytes(redis) - before
    ledger = await ledger_bytes(addresses.valkey, PARTITIONS, number)
    return Run(grown / voters, also={"ledger bytes": ledger / voters})


async def set_and_hash_bytes(addresses: Addresses, each: int, voters: int) -> float:
    """Keep a voter's vote ids with participant, source and time, and the unique voters of each participant."""
    casts = all_casts(Spread(each=each))
    async with Redis.from_url(addresses.valkey) as redis:
        before = await used_bytes(redis)
        left = each * voters
        while left:
            async with redis.pipeline(transaction=False) as pipeline:
                for cast, _ in zip(casts, range(min(left, PIPELINE)), strict=False):
                    [[participant, count]] = cast.choices
                    fact = f"{participant},{cast.source},{count},{cast.accepted_at}"
                    pipeline.hset(f"peer:{each}:votes:{cast.voter}", cast.vote_id, fact)
                    pipeline.sadd(f"peer:{each}:voters:{participant}:{cast.source}", cast.voter)
                await pipeline.execute()
            left -= min(left, PIPELINE)
        return (await used_bytes(redis) - before) / voters


async def used_bytes(redis: Redis) -> int:
    return int((await redis.info("memory"))["used_memory"])


async def process_measurements() -> list[Measurement]:
    """Return the memory that each process has alone, after its start."""
    async with whole_service() as (supervisor, _):
        pids = supervisor.stack["pids"]
        environment = {"PEER_VALKEY_URL": supervisor.stack["valkey"]}
        async with uvicorn("tests.benchmarks.peers.vote_servers:counting", **environment) as (_, pid):
            peer = Party("FastAPI process", [Run(own_megabytes(pid))])
            return [
                Measurement(
                    f"process {name}", "MB", "lower", Party(OURS, [Run(own_megabytes(pids[name]))]), [peer]
                )
                for name in ("gateway", "projector")
            ]


def own_megabytes(pid: int) -> float:
    return float(psutil.Process(pid).memory_full_info().uss) / 1e6


if __name__ == "__main__":
    alone("Memory", measure)
