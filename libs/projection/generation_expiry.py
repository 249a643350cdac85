"""Drops former generations, kept for a rollback, after their retention time."""

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final

from libs.concurrency.tasks import every
from libs.views.generations.generations import Generations

POLL_S: Final = 60.0

logger = logging.getLogger(__name__)

Kept = tuple[Generations, Callable[[], Collection[int]]]
"""The generations of a projection, and its partitions that this projector folds."""


async def expire_generations(projections: Sequence[Kept], keep_s: int) -> None:
    """Drop generations kept for longer than `keep_s` until cancelled; 0: they stay until an operator drops them.

    Several projectors of one partition do no harm. Each partition's view decides atomically by its own clock: a
    generation rolled back meanwhile is not dropped. The first poll also deletes the remains of a drop that a crash
    cut short.
    """
    swept: set[Generations] = set()

    async def expire(kept: Kept) -> None:
        generations, assigned = kept
        topic, sweep = generations.topic.name, generations not in swept
        for partition in assigned():
            for number in await generations.expire(partition, keep_s):
                sweep = True
                where = {"topic": topic, "partition": partition}
                logger.info("%s/%d: generation %d has expired", topic, partition, number, extra=where)
        if sweep and any(one.last > 1 for one in (await generations.read_all()).values()):
            await generations.sweep()
        swept.add(generations)

    await every(POLL_S, lambda: projections if keep_s else (), expire, "kept generations cannot be checked now")
