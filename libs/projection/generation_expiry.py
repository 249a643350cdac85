"""Drops former generations, kept for a rollback, after their retention time."""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final

from libs.tally.errors import ViewsUnavailable
from libs.views.generations.generations import Generations

POLL_S: Final = 60.0

logger = logging.getLogger(__name__)

Assigned = Callable[[], Collection[int]]


class GenerationExpiry:
    """Expires generations of the partitions that this projector folds. Several of one partition do no harm.

    Each partition's view decides atomically by its own clock: a generation rolled back meanwhile is not dropped.
    """

    def __init__(self, folds: Sequence[tuple[Generations, Assigned]], keep_s: int, poll_s: float = POLL_S) -> None:
        """`keep_s` is the retention time; 0: until dropped by an operator."""
        self._folds = folds
        self._keep_s = keep_s
        self._poll_s = poll_s

    async def run(self) -> None:
        """Run until cancelled. The first poll also deletes the remains of a drop whose process was killed."""
        swept = False
        while True:
            try:
                for generations, assigned in self._folds if self._keep_s else ():
                    await self._expire(generations, assigned(), sweep=not swept)
                swept = True
            except ViewsUnavailable as error:
                logger.warning("kept generations cannot be checked now: %s", error)
            await asyncio.sleep(self._poll_s)

    async def _expire(self, generations: Generations, partitions: Collection[int], *, sweep: bool) -> None:
        topic = generations.topic.name
        for partition in partitions:
            for number in await generations.expire(partition, self._keep_s):
                sweep = True
                where = {"topic": topic, "partition": partition}
                logger.info("%s/%d: generation %d has expired", topic, partition, number, extra=where)
        if sweep and any(one.last > 1 for one in (await generations.read_all()).values()):
            await generations.sweep()
