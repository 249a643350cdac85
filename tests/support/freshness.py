"""Marks views as fresh that a test folds without a projector."""

import asyncio

from libs.contracts.log_records import Position
from libs.views.generations.fresh_reader import FreshReader


async def make_fresh(views: FreshReader, partition: int = 0) -> None:
    """Declare the view fresh, as if the log ended at its position."""
    base, valkey = views._base(partition), views._valkey
    live = await valkey.call("HGET", f"{base}:generations", "live") or b"1"
    log, offset = await valkey.call("HMGET", f"{base}:g{int(live)}:position", "log", "offset")
    run = (await views.freshness(partition)).run
    assert await views.declare(partition, run, Position(log.decode(), int(offset)))


async def are_fresh(views: FreshReader, partitions: int) -> bool:
    """Return whether every partition can be read."""
    found = await asyncio.gather(*map(views.freshness, range(partitions)))
    return all(state.is_fresh for state in found)
