"""Access to a deployment: its log, views and object store, for commands and the libraries that they use."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import cached_property
from types import TracebackType
from typing import Any, Self

from libs.contracts.topics import Topic, purchases_topic
from libs.contracts.votes_log import VotesLog
from libs.deployment.environment_catalogue import Catalogue, Environment
from libs.deployment.identity import check_deployment, examine_deployment
from libs.deployment.settings import DeploymentAddresses
from libs.deployment.votes_topics import find_topics
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.writer import LogWriter
from libs.storage.object_store import Store, open_store
from libs.tally.errors import TallyError
from libs.telemetry.progress import Progress
from libs.views.purchases.purchase_views import PurchaseViews
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.function_loading import open_valkey
from libs.views.votes.vote_views import VoteViews


class Deployment:
    """Opens each connection on its first use, and closes all of them.

    `progress` receives the reports of long operations.
    """

    def __init__(
        self, find: Callable[[], DeploymentAddresses] | DeploymentAddresses, progress: Progress | None = None
    ) -> None:
        """`find` may raise; then each use of the deployment does."""
        self._find = find
        self._log: LogWriter | None = None
        self.progress = progress or Progress()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        opened = self.__dict__
        async with AsyncExitStack() as stack:
            if "valkey" in opened:
                stack.push_async_callback(self.valkey.close)
            if "reader" in opened:
                stack.push_async_callback(self.reader.close)
            if self._log is not None:
                stack.push_async_callback(self._log.stop)

    @cached_property
    def addresses(self) -> DeploymentAddresses:
        return self._find if isinstance(self._find, DeploymentAddresses) else self._find()

    @property
    def description(self) -> dict[str, Any]:
        """Content of stack.json, {} for external servers."""
        return self.addresses.description

    @property
    def namespace(self) -> str:
        return self.addresses.namespace

    @property
    def partitions(self) -> int:
        return self.addresses.partitions

    @property
    def kafka_settings(self) -> KafkaSettings:
        return self.addresses.kafka_settings

    @cached_property
    def votes(self) -> VotesLog:
        """The log of the votes, with its first topic, and all others after `find_topics`."""
        return VotesLog(self.namespace, self.partitions)

    async def find_topics(self) -> None:
        """Add the topics that the log of the votes grew by. Raises as `find_topics`."""
        self.votes.add(await find_topics(self.kafka_settings, self.reader, self.votes))

    @cached_property
    def purchases(self) -> Topic:
        return purchases_topic(self.namespace, self.partitions)

    @cached_property
    def valkey(self) -> ValkeyClient:
        return open_valkey(self.addresses.valkey)

    @cached_property
    def reader(self) -> LogReader:
        return LogReader(self.kafka_settings, place=self.votes.place)

    @cached_property
    def store(self) -> Store:
        return open_store(self.addresses.storage_url)

    @cached_property
    def vote_views(self) -> VoteViews:
        return VoteViews(self.valkey, self.namespace, self.votes)

    @cached_property
    def purchase_views(self) -> PurchaseViews:
        return PurchaseViews(self.valkey, self.namespace, self.purchases)

    @cached_property
    def catalogue(self) -> Catalogue:
        return self.catalogue_of(Environment.PRODUCTION)

    def catalogue_of(self, environment: Environment) -> Catalogue:
        return Catalogue(environment.namespace(self.namespace), self.valkey, self.log)

    async def log(self, check: bool = True) -> LogWriter:
        """Return the writer of the logs.

        Checks first that they belong to the object store and have the right settings: raises as `check`.
        """
        if check:
            await self.check()
        if self._log is None:
            log = LogWriter(self.kafka_settings, place=self.votes.place)
            await log.start()
            self._log = log
        return self._log

    async def problems(self) -> list[TallyError]:
        """Return the problems that stop services. Raises `LogUnavailable` and `StorageUnavailable`."""
        place = self.kafka_settings, self.namespace, self.partitions, self.store
        found = await examine_deployment(*place, self.votes)
        return found.problems

    async def check(self) -> None:
        """Raise the first problem that retries do not solve, as `check_deployment` does."""
        await check_deployment(self.kafka_settings, self.namespace, self.partitions, self.store)
