"""Views of retired topics: rebuilds what a server lost from the archive, and opens their gates without fences.

Nothing is appended to a retired topic, so its views are complete as long as the server keeps them. They are lost
together with their gate, so an open gate proves that a complete view is still there.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from libs.concurrency.keyed_tasks import KeyedTasks
from libs.contracts.log_records import Position
from libs.contracts.votes_log import VotesLog
from libs.kafka.reader import Archive, LogReader
from libs.projection.projection_interface import Projection
from libs.projection.replay import Replay
from libs.tally.errors import TallyError
from libs.views.generations import Generations
from libs.views.partition_reads import Group
from libs.views.reply_types import Doubt
from libs.views.vote_views import VoteViews

POLL_S: Final = 1.0
NOT_USED: Final = 0
"""Generation that the replay does not touch: it folds into the live one."""

logger = logging.getLogger(__name__)


class RetiredTopics:
    """Keeps the views of the retired topics of `log` complete. Several processes may do so, without effect.

    Also folds the last records of a topic that was just retired, which may still be in Kafka.
    """

    def __init__(
        self,
        log: VotesLog,
        views: VoteViews,
        projection: Projection,
        generations: Generations,
        reader: LogReader,
        archive: Archive,
        is_responsible: Callable[[], bool],
    ) -> None:
        """`projection` folds into the live views. `is_responsible`: this process does it now."""
        self._log = log
        self._views = views
        self._replay = Replay(projection, generations, reader, NOT_USED)
        self._reader = reader
        self._archive = archive
        self._is_responsible = is_responsible
        self._ended: set[int] = set()
        """Partitions whose log cannot get longer, and whose view was at its end."""
        self._failing: set[int] = set()

    @property
    def partitions(self) -> list[int]:
        """Return the partitions that this process is responsible for."""
        retired = self._log.retired if self._is_responsible() else []
        return [partition for topic in retired for partition in topic.numbers]

    async def run(self) -> None:
        """Run until cancelled; retries unavailable servers at the next poll.

        A partition whose server hangs delays no other.
        """
        completions = KeyedTasks(self._try_complete)
        reads = KeyedTasks(partial(self._read_doubts, completions))
        try:
            while True:
                for group in self._views.live.groups(self.partitions):
                    reads.start(group)
                await asyncio.sleep(POLL_S)
        finally:
            await reads.cancel()
            await completions.cancel()

    async def _read_doubts(self, completions: KeyedTasks[int], group: Group) -> None:
        """Start the completion of partitions whose gate is shut, or that may get more records."""
        try:
            doubts = await self._views.doubts(group)
        except Exception:
            logger.exception("retired partitions cannot be checked")
            return
        for partition, doubt in doubts.items():
            if partition not in self._ended or (isinstance(doubt, Doubt) and not doubt.open):
                completions.start(partition)

    async def _try_complete(self, partition: int) -> None:
        try:
            await self._complete(partition)
        except Exception as error:
            if partition not in self._failing:
                bug = None if isinstance(error, TallyError) else error
                logger.warning("retired partition %d cannot be completed now: %s", partition, error, exc_info=bug)
            self._failing.add(partition)
        else:
            self._failing.discard(partition)

    async def _complete(self, partition: int) -> None:
        is_archived = await self._archive.holds(self._log.name, partition)
        log_ids = await self._reader.log_ids(self._log.name, [partition])
        reached = (await self._replay.fold({partition: None}, lambda _, __: None))[partition]
        end = Position(log_ids[partition], reached.offset)
        if await self._views.open_retired(partition, end) and is_archived:
            self._ended.add(partition)
