"""Views that a test folds by itself, made fresh as a projector would."""

from __future__ import annotations

import asyncio

from libs.views.freshness import FreshReader


async def make_fresh(views: FreshReader, partition: int = 0) -> None:
    """As though the log ended where the view stands."""
    state = await views.freshness(partition)
    assert state.position is not None
    assert await views.declare(partition, state.run, state.position)


async def are_fresh(views: FreshReader, partitions: int) -> bool:
    """Whether every partition can be read."""
    found = await asyncio.gather(*map(views.freshness, range(partitions)))
    return all(state.is_fresh for state in found)
