"""Peers of reading a contest's counts: one reads a hash in Redis for each request, one answers with fixed bytes.

The first is the handler as the documentation of FastAPI and redis-py writes it: one HGETALL on a shared client,
and a dict that FastAPI serializes.
"""

import os
from typing import Any

from fastapi import FastAPI
from redis.asyncio import Redis

redis = Redis.from_url(
    os.environ.get("PEER_VALKEY_URL", "redis://127.0.0.1:6379/0"), max_connections=512, decode_responses=True
)
hashed = FastAPI()
SIZE = int(os.environ.get("PEER_BYTES", "0"))
HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(SIZE).encode())]
BODY = b"x" * SIZE


@hashed.get("/contests/{contest}/vote_updates/")
async def counts(contest: str) -> dict[str, Any]:
    """Return each participant's count and numbers of voters, and their sums."""
    participants: dict[str, dict[str, int]] = {}
    stored: Any = await redis.hgetall(f"peer:{contest}:counts")
    for field, number in stored.items():
        participant, _, name = field.partition("/")
        participants.setdefault(participant, {})[name] = int(number)
    total = sum(figures["count"] for figures in participants.values())
    return {"contest_key": contest, "count": total, "participants": participants}


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """The ceiling: the same number of bytes, always the same ones."""
    if scope["type"] == "lifespan":
        return
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})
