"""Counts votes and unique voters per participant and source by plain pipelined commands.

One HMGET for a batch's voters, then HSET, HINCRBY and the offset in one transaction: the way of redis-py's
documentation on pipelines, with one round trip for many commands. Nothing else may write to the same keys.

Arguments: bootstrap servers, topic, URL of the server.
"""

import json
import sys
from collections import Counter
from typing import Any

import orjson
import uvloop
from aiokafka import AIOKafkaConsumer, TopicPartition
from redis.asyncio import Redis

from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings

POSITIONS = "peer:positions"


async def fold(redis: Redis, partition: int, records: list[Any]) -> None:
    events = [event for event in (orjson.loads(record.value) for record in records) if event["type"] == "VoteCast"]
    base = f"peer:{{{partition}}}"
    voters = list({event["voter"] for event in events})
    stored = await redis.hmget(f"{base}:voters", voters) if voters else []
    voted = {voter: set(json.loads(text)) if text else set() for voter, text in zip(voters, stored, strict=True)}
    counts: Counter[str] = Counter()
    for event in events:
        [[participant, count]] = event["choices"]
        name = f"{participant}/{event['source']}"
        counts[f"{name}/votes"] += count
        if name not in voted[event["voter"]]:
            voted[event["voter"]].add(name)
            counts[f"{name}/voters"] += 1
    async with redis.pipeline(transaction=True) as pipeline:
        if voted:
            packed: dict[Any, Any] = {voter: orjson.dumps(list(names)) for voter, names in voted.items()}
            pipeline.hset(f"{base}:voters", mapping=packed)
        for name, count in counts.items():
            pipeline.hincrby(f"{base}:counts", name, count)
        pipeline.hset(POSITIONS, str(partition), records[-1].offset + 1)
        await pipeline.execute()


async def main(kafka: str, topic: str, url: str) -> None:
    login = connection(KafkaSettings(kafka_bootstrap_servers=kafka))
    async with Redis.from_url(url) as redis, AIOKafkaConsumer(**login) as consumer:
        partitions = [
            TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or range(16)
        ]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        while True:
            batches = await consumer.getmany(timeout_ms=100, max_records=4_000)
            for partition, records in batches.items():
                await fold(redis, partition.partition, records)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
