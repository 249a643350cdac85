"""Peers of the POST of one vote: a handler that only counts in Redis, and a bare ASGI response."""

import os
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from redis.asyncio import Redis

redis = Redis.from_url(os.environ.get("PEER_VALKEY_URL", "redis://127.0.0.1:6379/0"), max_connections=512)
app = FastAPI()


class Vote(BaseModel):
    participant_key: str
    voter_id: str


@app.post("/contests/{contest}/votes", status_code=201)
async def vote(contest: str, vote: Vote) -> dict[str, str]:
    async with redis.pipeline(transaction=True) as pipeline:
        pipeline.hincrby(f"peer:{contest}:counts", vote.participant_key, 1)
        pipeline.sadd(f"peer:{contest}:voters", vote.voter_id)
        await pipeline.execute()
    return {"status": "accepted"}


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """The ceiling of any Python server here: read the body, answer."""
    await receive()
    await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}"})
