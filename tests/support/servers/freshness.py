"""Views that can be read: folded by a projector, or marked as fresh by a test that folds without one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from libs.contracts.log_records import Position
from libs.projection.projector import Projector
from libs.views.generations.fresh_reader import FreshReader
from tests.support.eventually import eventually


async def make_fresh(views: FreshReader, partition: int = 0) -> None:
    """Declare the view fresh, as if the log ended at its position."""
    base, valkey = views._base(partition), views._valkey
    live = await valkey.call("HGET", f"{base}:generations", "live") or b"1"
    log, offset = await valkey.call("HMGET", f"{base}:g{int(live)}:position", "log", "offset")
    run = (await views.freshness(partition)).run
    assert await views.declare(partition, run, Position(log.decode(), int(offset)))


@asynccontextmanager
async def folding(projector: Projector, views: FreshReader, partitions: int) -> AsyncIterator[None]:
    """Run a projector while the context is open; all that was in its log before can be read in it."""
    task = asyncio.create_task(projector.run())
    try:
        await eventually(lambda: are_fresh(views, partitions))
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def are_fresh(views: FreshReader, partitions: int) -> bool:
    """Return whether every partition can be read."""
    found = await asyncio.gather(*map(views.freshness, range(partitions)))
    return all(state.is_fresh for state in found)
