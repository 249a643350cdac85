"""A process's guard: it works on the log and the object store of its deployment, or on none."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol, Self

from libs.contracts.log_records import Position
from libs.contracts.topics import Topic, catalogue_topic, topics_of, votes_topic
from libs.deployment.identity import examine_deployment
from libs.deployment.settings import DeploymentSettings
from libs.kafka.errors import LogChanged
from libs.kafka.guard import LogGuard
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import Examination, wrong_partitions
from libs.storage.store import StorageUnavailable, Store, open_store
from libs.tally.errors import LogUnavailable, TallyError, ViewsUnavailable
from libs.views.catalogue import CatalogueViews
from libs.views.client import Valkey
from libs.views.functions import open_valkey
from libs.views.votes import VoteViews

CHECK_S: Final = 10.0
RETRY_S: Final = 0.5
"""Between two checks while something is wrong or away."""
FIRST_CHECK_S: Final = 5.0
"""How long a start waits for the first check; a server that is away is waited for beside the service."""

Positions = Callable[[int], Awaitable[Position | None]]
_NOT_CHECKED: Final = LogUnavailable("The log was not checked yet.", retry_after_s=1)

logger = logging.getLogger(__name__)


class ServiceGuard(LogGuard, Protocol):
    """As a service asks it."""

    def refusal(self) -> TallyError | None:
        """Why nothing may be served, in words for a client."""

    async def check(self) -> None:
        """For health checks: raises what is wrong or away."""


@asynccontextmanager
async def open_guard(
    settings: DeploymentSettings, shared: ServiceGuard | None = None
) -> AsyncIterator[ServiceGuard]:
    """`shared`, or without one a guard that watches for as long as the context is open."""
    if shared is not None:
        yield shared
        return
    valkey, store = open_valkey(settings.valkey_url), open_store(settings.storage_url)
    try:
        async with DeploymentGuard(
            settings, settings.namespace, settings.partitions, store, valkey
        ).watching() as guard:
            yield guard
    finally:
        await valkey.close()


class DeploymentGuard:
    """Checks topics, log ids and the object store, again and again while `watching`.

    Until one check has passed, nothing may be appended. While the last one found something wrong, nothing may be
    served. A server that is away is no finding: what was found before holds.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        namespace: str,
        partitions: int,
        store: Store,
        valkey: Valkey,
        check_s: float = CHECK_S,
    ) -> None:
        """`check_s` is the time between two checks while all is well."""
        self._check_s = check_s
        self._settings = settings
        self._namespace = namespace
        self._partitions = partitions
        self._store = store
        self._topics = {topic.name: topic for topic in topics_of(namespace, partitions)}
        votes, catalogue = votes_topic(namespace, partitions), catalogue_topic(namespace)
        self._positions: dict[Topic, Positions] = {
            votes: VoteViews(valkey, namespace).position,
            catalogue: CatalogueViews(valkey, namespace).position,
        }
        self._log_ids: dict[tuple[str, int], str] = {}
        """As of the first check that passed."""
        self._verified = False
        self._wrong: TallyError | None = None
        self._away: TallyError | None = _NOT_CHECKED
        self._shortened: LogChanged | None = None
        self._suspected = False
        self._check_now = asyncio.Event()

    def refusal(self) -> TallyError | None:
        """Why nothing may be served, in words for a client."""
        if self._wrong is None:
            return None
        why = "The service does not fit its log or its object store; an operator has to correct that."
        return LogUnavailable(why, retry_after_s=5, cause=self._wrong)

    def append_refusal(self) -> TallyError | None:
        """Why nothing may be appended, in words for a client."""
        if self._wrong is not None or self._verified:
            return self.refusal()
        return LogUnavailable(_NOT_CHECKED.message, retry_after_s=1, cause=self._away)

    def check_partitions(self, topic: str, found: int) -> None:
        """To be called before each append with the producer's metadata. Raises `WrongTopic`."""
        known = self._topics.get(topic)
        if known is not None and found != known.partitions:
            self._check_now.set()
            raise wrong_partitions(known, found)

    def report_shortened(self, topic: str, partition: int) -> None:
        """To be called where a record was acknowledged at an offset that an earlier one had. It holds for good."""
        self._shortened = LogChanged(
            f"{topic}/{partition} was recreated or shortened: offsets that were given are given again", topic=topic
        )
        self._check_now.set()

    async def check(self) -> None:
        """For health checks: raises what is wrong or away."""
        if self._wrong is not None:
            raise self._wrong
        if self._away is not None:
            raise self._away

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Self]:
        """Check for as long as the context is open; it opens after the first check, or where that takes long."""
        first = asyncio.create_task(self._look())
        await asyncio.wait([first], timeout=FIRST_CHECK_S)
        task = asyncio.create_task(self._watch(first))
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _watch(self, looking: "asyncio.Task[None]") -> None:
        await looking
        while True:
            all_well = self._wrong is None and self._away is None and not self._suspected
            with suppress(TimeoutError):
                await asyncio.wait_for(self._check_now.wait(), self._check_s if all_well else RETRY_S)
            self._check_now.clear()
            await self._look()

    async def _look(self) -> None:
        try:
            found = await examine_deployment(self._settings, self._namespace, self._partitions, self._store)
            problems = found.problems + [error async for error in self._changed(found)]
        except (LogUnavailable, StorageUnavailable) as error:
            self._set_away(error)
            return
        except TallyError as error:
            problems = [error]
        except Exception:
            logger.exception("the log could not be checked")
            return
        temporary = [problem for problem in problems if isinstance(problem, LogUnavailable)]
        self._judge([problem for problem in problems if problem not in temporary])
        self._set_away(temporary[0] if temporary else None)
        if self._verified and not self._log_ids:
            self._log_ids = _ids(found)

    def _judge(self, wrong: Sequence[TallyError]) -> None:
        """What was right before is found wrong twice in a row first: a broker that starts may show no topics."""
        if not wrong:
            if self._wrong is not None:
                logger.warning("the log is as it must be again")
            self._wrong, self._suspected, self._verified = None, False, True
        elif self._verified and self._wrong is None and not self._suspected:
            self._suspected = True
        else:
            if self._wrong is None or self._wrong.message != wrong[0].message:
                logger.critical("nothing is served: %s", "; ".join(problem.message for problem in wrong))
            self._wrong = wrong[0]

    def _set_away(self, error: TallyError | None) -> None:
        if error is not None and (self._away is None or self._away is _NOT_CHECKED):
            logger.warning("waiting: %s", error)
        self._away = error

    async def _changed(self, found: Examination) -> AsyncIterator[LogChanged]:
        """Logs that are not those of the first check, or not those that the views were folded from."""
        if self._shortened is not None:
            yield self._shortened
        ids = _ids(found)
        for (name, partition), known in self._log_ids.items():
            if ids.get((name, partition), known) != known:
                yield LogChanged(f"{name}/{partition} was recreated while this process ran", topic=name)
        with suppress(ViewsUnavailable):
            for topic, position in self._positions.items():
                folded = await asyncio.gather(*map(position, range(topic.partitions)))
                for partition, at in enumerate(folded):
                    if at is not None and ids.get((topic.name, partition), at.log_id) != at.log_id:
                        why = f"{topic.name}/{partition} was recreated: the views were folded from another log"
                        yield LogChanged(why, topic=topic.name)


def _ids(found: Examination) -> dict[tuple[str, int], str]:
    return {
        (topic, partition): first.log_id
        for topic, partitions in found.first_records.items()
        for partition, first in partitions.items()
    }
