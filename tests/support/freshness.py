"""Marks views as fresh that a test folds without a projector."""

import asyncio

from libs.views.generations.fresh_reader import FreshReader


async def make_fresh(views: FreshReader, partition: int = 0) -> None:
    """Declare the view fresh, as if the log ended at its position."""
    state = await views.freshness(partition)
    assert state.position is not None
    assert await views.declare(partition, state.run, state.position)


async def are_fresh(views: FreshReader, partitions: int) -> bool:
    """Return whether every partition can be read."""
    found = await asyncio.gather(*map(views.freshness, range(partitions)))
    return all(state.is_fresh for state in found)
