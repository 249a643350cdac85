"""Raises configuration versions of changed contests in the votes views, later where a partition does not respond.

Such a partition delays no fold of the catalogue: the fold stores which versions it lacks, in the same step as the
change. Until the partition has them, the change has no outcome, so its writer receives 503. So no vote is decided
by the older configuration after a writer was answered: others may reach the partition, or it may continue after a
while.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from libs.concurrency.keyed_tasks import KeyedTasks
from libs.contracts.votes_log import VotesLog
from libs.deployment.votes_topics import RAISE_S
from libs.tally.errors import ViewsUnavailable
from libs.views.catalogue_views import CatalogueViews, DueRaises
from libs.views.partition_reads import Group
from libs.views.vote_views import VoteViews

WAIT_S: Final = 1.0
"""Seconds after which a partition that has not responded is left to the process manager."""
POLL_S: Final = 0.2

logger = logging.getLogger(__name__)


class Topics(Protocol):
    """Interface of the topics of the votes."""

    @property
    def log(self) -> VotesLog: ...
    async def refresh(self, max_age_s: float) -> None: ...


class ConfigVersionSender:
    """Raises versions in every partition of the votes views, as `RaiseConfig` of the catalogue's projection."""

    def __init__(self, views: VoteViews, topics: Topics) -> None:
        """`topics` cover all contests that the catalogue can have."""
        self._views = views
        self._topics = topics
        self._away: set[int] = set()

    async def __call__(self, versions: Mapping[str, int]) -> Collection[int]:
        """Raise versions by contest; return the partitions that may lack them.

        Those that did not respond before are not asked: the manager asks them.
        """
        await self._topics.refresh(RAISE_S)
        every = self._topics.log.numbers
        done = await self.raise_in([each for each in every if each not in self._away], versions)
        lacking = set(every).difference(done)
        if lacking - self._away:
            logger.warning("configurations of contests are raised later in partitions %s", sorted(lacking))
        self._away |= lacking
        return sorted(lacking)

    async def raise_in(self, partitions: Iterable[int], versions: Mapping[str, int]) -> set[int]:
        """Raise versions in these partitions; return those that have them now."""
        groups = defaultdict[int, list[int]](list)
        for partition in partitions:
            groups[self._views.call_group(partition)].append(partition)
        if not groups:
            return set()
        raising = [asyncio.create_task(self._raise(each, versions)) for each in groups.values()]
        in_time, late = await asyncio.wait(raising, timeout=WAIT_S)
        for task in late:
            task.cancel()
        done = {partition for task in in_time for partition in task.result()}
        self._away -= done
        return done

    async def _raise(self, group: Sequence[int], versions: Mapping[str, int]) -> Sequence[int]:
        """Raise versions, repeatable and in any order, as none is ever lowered; return the partitions done."""
        try:
            errors = await self._views.raise_together(group, versions)
        except ViewsUnavailable:
            return ()
        return [partition for partition, error in zip(group, errors, strict=True) if error is None]


class RaiseManager:
    """Process manager of the raises that are due, for the catalogue partitions that this projector folds."""

    def __init__(
        self, raiser: ConfigVersionSender, catalogue: CatalogueViews, assigned: Callable[[], Collection[int]]
    ) -> None:
        self._raiser = raiser
        self._catalogue = catalogue
        self._assigned = assigned

    async def run(self) -> None:
        """Run until cancelled; retries unavailable servers at the next poll.

        A catalogue partition whose server hangs delays no other.
        """
        passes = KeyedTasks(self._pass)
        try:
            while True:
                for group in self._catalogue.live.groups(self._assigned()):
                    passes.start(group)
                await asyncio.sleep(POLL_S)
        finally:
            await passes.cancel()

    async def _pass(self, group: Group) -> None:
        try:
            for partition in await self._catalogue.with_raises(group):
                await self._raise(partition, await self._catalogue.raises(partition))
        except ViewsUnavailable as error:
            logger.warning("raises of configurations that are due cannot be read: %s", error)
        except Exception:
            logger.exception("raising configurations of contests failed")

    async def _raise(self, partition: int, due: Collection[DueRaises]) -> None:
        """Raise a page of versions, the latest of each contest, and remove what the partitions have."""
        lacking: dict[int, dict[str, int]] = {}
        for each in due:
            for place in each.partitions:
                versions = lacking.setdefault(place, {})
                versions.update({name: max(each.offset, versions.get(name, -1)) for name in each.contests})
        places = defaultdict[Sequence[tuple[str, int]], list[int]](list)
        for place, versions in lacking.items():
            places[tuple(versions.items())].append(place)
        raised = await asyncio.gather(*(self._raiser.raise_in(its, dict(same)) for same, its in places.items()))
        done = set[int]().union(*raised)
        if done:
            await self._catalogue.raised(partition, [each.offset for each in due], sorted(done))
            logger.info("configurations of %d changes are raised in partitions %s", len(due), sorted(done))
