"""Process manager: writes into the log which of its records were lost, once a view has noticed it.

A partition of the votes takes none before (`libs.projection.fencing`). A crash before the loss is noted as told
writes the event once more, with the same members.
"""

import logging
from collections.abc import Sequence
from typing import Final

from libs.audit.lost_records import event_of
from libs.concurrency.tasks import every
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Appender
from libs.deployment.deployment import Deployment
from libs.projection.generation_expiry import Kept
from libs.views.generations.generations import Generation, Generations
from libs.views.valkey.partition_reads import Group, Mark, PartitionReads
from libs.views.valkey.watched_reads import WatchedMarks
from libs.views.votes.vote_views import VoteViews

POLL_S: Final = 1.0

Place = tuple[Generations, WatchedMarks, Group]
"""Partitions of a projection's views that are read together."""

logger = logging.getLogger(__name__)


class LossRecorder:
    """Watches the views that this projector folds. Several recorders of one partition do no harm."""

    def __init__(self, servers: Deployment, log: Appender, folded: Sequence[Kept]) -> None:
        self._servers = servers
        self._log = log
        self._folded = [
            (one, WatchedMarks(PartitionReads(one.valkey, one.prefix, one.base)), assigned)
            for one, assigned in folded
        ]

    async def run(self) -> None:
        """Run until cancelled; retries unavailable servers at the next poll."""
        await every(POLL_S, self._places, self._check, "losses of the log cannot be looked for now")

    def _places(self) -> list[Place]:
        return [
            (generations, marks, group)
            for generations, marks, assigned in self._folded
            for group in marks.groups(assigned())
        ]

    async def _check(self, place: Place) -> None:
        generations, marks, group = place
        for partition, mark in (await marks.marks(group)).items():
            if isinstance(mark, Mark) and mark.losses:
                for lost in (await generations.read(partition)).lost:
                    if not lost.is_told:
                        await self._tell(generations, partition, lost)

    async def _tell(self, generations: Generations, partition: int, lost: Generation) -> None:
        servers = self._servers
        is_of_votes = generations.prefix == servers.vote_views.generations.prefix
        place = servers.valkey, servers.namespace, servers.votes
        views = VoteViews(*place, generation=lost.number) if is_of_votes else None
        event = await event_of(views, partition, lost)
        landed = await self._log.append(generations.topic.name, partition, vote_codec.encode(event))
        await generations.set_told(partition, lost.number)
        where = {"topic": generations.topic.name, "partition": partition, "offset": landed.offset}
        said = "%s/%d: the log tells that it lost %d records from %d on"
        logger.critical(said, generations.topic.name, partition, lost.records_lost, event.first, extra=where)
