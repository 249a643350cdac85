"""Main loop of the projections of the votes: one projector for each topic of their log."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from libs.concurrency.tasks import first_success
from libs.contracts.topics import Topic, VotesLog
from libs.projection.partition_worker import PartitionWorker
from libs.projection.projector import Projector

POLL_S: Final = 0.5
"""Interval of the checks for new topics."""


class VotesProjector:
    """Folds all topics of the votes log, also those that it grows by later.

    See `Projector` for its members.
    """

    def __init__(self, log: VotesLog, new_projector: Callable[[Topic], Projector]) -> None:
        self.topic: Final = log
        self._new_projector = new_projector
        self._projectors: dict[int, Projector] = {}

    @property
    def assigned(self) -> frozenset[int]:
        return frozenset().union(*(each.assigned for each in self._projectors.values()))

    @property
    def folds(self) -> Collection[PartitionWorker]:
        return [fold for each in self._projectors.values() for fold in each.folds]

    @property
    def lag(self) -> int:
        return sum(each.lag for each in self._projectors.values())

    async def check(self) -> None:
        if self._projectors:
            await first_success(each.check() for each in self._projectors.values())

    async def run(self) -> None:
        """Fold until cancelled. Raises as `Projector.run`, once a topic cannot be folded; all others stop then."""
        running: dict[int, asyncio.Task[None]] = {}
        try:
            while True:
                for topic in self.topic.topics:
                    if topic.first not in running:
                        projector = self._projectors[topic.first] = self._new_projector(topic)
                        running[topic.first] = asyncio.create_task(projector.run())
                done, _ = await asyncio.wait(running.values(), timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in running.values():
                task.cancel()
            await asyncio.wait(running.values())
