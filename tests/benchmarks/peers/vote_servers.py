"""Peers of the POST of one vote: one counts in Redis, one appends to Kafka, one only answers.

Each is the handler as its framework's documentation writes it. FastAPI advises a response model and one process
per core (`--workers`); redis-py a shared client with a pool of connections and one pipeline per request; aiokafka
one producer per process, idempotent with `acks=all` where nothing may be lost, and a linger where throughput
counts.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaProducer
from fastapi import FastAPI
from pydantic import BaseModel
from redis.asyncio import Redis

from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings

redis = Redis.from_url(os.environ.get("PEER_VALKEY_URL", "redis://127.0.0.1:6379/0"), max_connections=512)
counting = FastAPI()


class Vote(BaseModel):
    participant_key: str
    voter_id: str


@counting.post("/contests/{contest}/votes", status_code=201)
async def count(contest: str, vote: Vote) -> dict[str, str]:
    async with redis.pipeline(transaction=True) as pipeline:
        pipeline.hincrby(f"peer:{contest}:counts", vote.participant_key, 1)
        pipeline.sadd(f"peer:{contest}:voters", vote.voter_id)
        await pipeline.execute()
    return {"status": "accepted"}


@asynccontextmanager
async def produces(app: FastAPI) -> AsyncIterator[None]:
    async with AIOKafkaProducer(
        **connection(KafkaSettings(kafka_bootstrap_servers=os.environ["PEER_KAFKA"])),
        acks="all",
        enable_idempotence=True,
    ) as app.state.producer:
        yield


appending = FastAPI(lifespan=produces)


@appending.post("/contests/{contest}/votes", status_code=201)
async def append(contest: str, vote: Vote) -> dict[str, str]:
    value, key = vote.model_dump_json().encode(), vote.voter_id.encode()
    await appending.state.producer.send_and_wait(os.environ["PEER_TOPIC"], value, key=key)
    return {"status": "accepted"}


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """The ceiling of any Python server here: read the body, answer."""
    if scope["type"] == "lifespan":
        return
    await receive()
    await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}"})
