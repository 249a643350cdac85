"""The service that an engineer would write in a day for the same work as a vote of ours.

One script in Valkey (append-only file on) checks a vote's id and limits and reserves it, then its record is
appended (idempotent, `acks=all`), then it is answered. A consumer, a process of its own, keeps counts and exact
unique voters: each batch of records with its offset in one transaction. What it lacks: if a gateway is killed
between script and append, the allowance is held for ever and a repetition is told 200; an append of unknown
outcome is given back and may count; Valkey cannot be rebuilt while votes come in.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from fastapi import FastAPI, HTTPException, Response
from pydantic import BaseModel, Field
from redis.asyncio import Redis

from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings

RESERVE: Final = """
local voter, id, participant, most, count = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local known = redis.call('HGET', voter, 'vote:' .. id)
if known then
  return {0, known == participant and 1 or 0}
end
local used = tonumber(redis.call('HGET', voter, 'used:' .. participant) or '0')
if used + count > most then
  return {-1, used}
end
redis.call('HSET', voter, 'vote:' .. id, participant, 'used:' .. participant, used + count)
return {1, most - used - count}
"""
RELEASE: Final = """
if redis.call('HDEL', KEYS[1], 'vote:' .. ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[1], 'used:' .. ARGV[2], -tonumber(ARGV[3]))
end
"""
MOST: Final = 3
"""Votes of a voter for a participant."""
TOPIC: Final = os.environ.get("PEER_TOPIC", "")
KAFKA: Final = connection(KafkaSettings(kafka_bootstrap_servers=os.environ.get("PEER_KAFKA", "")))

redis = Redis.from_url(
    os.environ.get("PEER_VALKEY_URL", "redis://127.0.0.1:6379/0"), max_connections=512, decode_responses=True
)
reserve, release = redis.register_script(RESERVE), redis.register_script(RELEASE)


class Vote(BaseModel):
    participant_key: str
    voter_id: str
    vote_id: str = Field(default_factory=lambda: str(uuid4()), pattern=r"^[A-Za-z0-9_.:\-]{1,64}$")
    count: int = Field(1, ge=1, le=1_000_000)


class Accepted(BaseModel):
    vote_id: str
    accepted_at: datetime
    remaining: int | None


@asynccontextmanager
async def produces(app: FastAPI) -> AsyncIterator[None]:
    async with AIOKafkaProducer(**KAFKA, acks="all", enable_idempotence=True) as app.state.producer:
        yield


voting = FastAPI(lifespan=produces)


@voting.post("/contests/{contest}/votes", status_code=201)
async def cast(contest: str, vote: Vote, response: Response) -> Accepted:
    now = datetime.now(UTC)
    outcome, value = await reserve(voter_of(contest, vote), reservation(vote))
    if outcome < 0:
        raise HTTPException(409, "participant_limit_reached")
    if outcome == 0:
        if not value:
            raise HTTPException(409, "idempotency_key_reused")
        response.status_code = 200
        return Accepted(vote_id=vote.vote_id, accepted_at=now, remaining=None)
    try:
        await (await append(contest, vote, now))
    except KafkaError as error:
        await give_back(contest, vote)
        raise HTTPException(503, "log_unavailable") from error
    return Accepted(vote_id=vote.vote_id, accepted_at=now, remaining=value)


class Batch(BaseModel):
    votes: list[Vote] = Field(max_length=1_000)


class Outcome(BaseModel):
    status: int
    vote: Accepted | None = None
    error: str | None = None


@voting.post("/contests/{contest}/votes/batch")
async def cast_batch(contest: str, batch: Batch) -> list[Outcome]:
    """Reserve all by one pipeline, and append what was granted at once."""
    now = datetime.now(UTC)
    async with redis.pipeline(transaction=False) as pipeline:
        for vote in batch.votes:
            await reserve(voter_of(contest, vote), reservation(vote), client=pipeline)
        replies = await pipeline.execute()
    appends: dict[int, asyncio.Future[Any]] = {}
    outcomes = []
    for place, (vote, (outcome, value)) in enumerate(zip(batch.votes, replies, strict=True)):
        if outcome < 0:
            outcomes.append(Outcome(status=409, error="participant_limit_reached"))
        elif outcome == 0 and not value:
            outcomes.append(Outcome(status=409, error="idempotency_key_reused"))
        else:
            accepted = Accepted(vote_id=vote.vote_id, accepted_at=now, remaining=value if outcome else None)
            outcomes.append(Outcome(status=201 if outcome else 200, vote=accepted))
            if outcome:
                appends[place] = await append(contest, vote, now)
    for place, ended in zip(appends, await asyncio.gather(*appends.values(), return_exceptions=True), strict=True):
        if isinstance(ended, BaseException):
            await give_back(contest, batch.votes[place])
            outcomes[place] = Outcome(status=503, error="log_unavailable")
    return outcomes


def voter_of(contest: str, vote: Vote) -> list[str]:
    """Return the key of the voter's ids and sums, as a script takes it."""
    return [f"peer:{contest}:voter:{vote.voter_id}"]


def reservation(vote: Vote) -> list[str | int]:
    return [vote.vote_id, vote.participant_key, MOST, vote.count]


async def append(contest: str, vote: Vote, now: datetime) -> asyncio.Future[Any]:
    """Queue a vote's record, and return its acknowledgement."""
    record = orjson.dumps({"contest": contest, "accepted_at": now.isoformat(), **vote.model_dump()})
    sent: asyncio.Future[Any] = await voting.state.producer.send(TOPIC, record, key=vote.voter_id.encode())
    return sent


async def give_back(contest: str, vote: Vote) -> None:
    await release(voter_of(contest, vote), [vote.vote_id, vote.participant_key, vote.count])


async def count_votes() -> None:
    """Fold the topic into counts and unique voters, from the offsets that Valkey has."""
    consumer = AIOKafkaConsumer(**KAFKA, enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    try:
        partitions = [TopicPartition(TOPIC, number) for number in range(int(os.environ["PEER_PARTITIONS"]))]
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, int(await redis.hget("peer:offsets", str(partition.partition)) or 0))
        while True:
            for partition, records in (await consumer.getmany(timeout_ms=200)).items():
                await fold(partition.partition, records)
    finally:
        await consumer.stop()


async def fold(partition: int, records: Any) -> None:
    events = [orjson.loads(record.value) for record in records]
    votes = [event for event in events if "vote_id" in event]  # the first record of a topic of ours is none
    async with redis.pipeline(transaction=True) as pipeline:
        for vote in votes:
            pipeline.hincrby(f"peer:{vote['contest']}:counts", vote["participant_key"], vote["count"])
            pipeline.sadd(f"peer:{vote['contest']}:unique:{vote['participant_key']}", vote["voter_id"])
        pipeline.hset("peer:offsets", str(partition), records[-1].offset + 1)
        await pipeline.execute()


if __name__ == "__main__":
    asyncio.run(count_votes())
