"""A deployment's clients: each opened once in a process, by its composition root or command, and passed down."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import cached_property
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from libs.catalogue.api_keys import ApiKeyCache
from libs.contracts.topics import Topic, VotesLog, legacy_test_namespace, purchases_topic, topics_of
from libs.deployment.environment_catalogue import Catalogue, Environment
from libs.deployment.identity import check_deployment, examine_deployment
from libs.deployment.identity_guard import DeploymentGuard
from libs.deployment.settings import DeploymentAddresses, DeploymentSettings
from libs.deployment.votes_topics import find_topics
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.writer import STOP_S, LogWriter
from libs.storage.object_store import Store, open_store
from libs.storage.secret_rings import SecretRing
from libs.tally.errors import TallyError, ViewsUnavailable
from libs.telemetry.tracing import Tracing
from libs.views.generations.generations import Generations, ProjectionName, projections_of
from libs.views.purchases.purchase_views import PurchaseViews
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.function_loading import load_functions, open_valkey
from libs.views.valkey.request_counters import RateCounters, RequestKeys
from libs.views.votes.address_counters import AddressCounters
from libs.views.votes.vote_views import VoteViews
from libs.web.door.sessions import Sessions

S = TypeVar("S", bound=DeploymentSettings)
M = TypeVar("M")


class Progress:
    """Receives progress reports of long operations; this base class ignores them. `quiet`: they are not shown."""

    quiet = True

    def begin(self, title: str, total: int | None) -> None:
        """Start an operation of about `total` steps (None: unknown), rarely a few more; ends the one before."""

    def advance(self, steps: int) -> None:
        """Add `steps` completed steps."""

    def note(self, line: str) -> None:
        """Report an intermediate result, or a fact about the output."""


class Deployment:
    """Opens each client on its first use, and closes all of them.

    A service has a `guard` that its writer asks. `progress` receives the reports of a command's long operations.
    """

    def __init__(
        self,
        find: Callable[[], DeploymentAddresses] | DeploymentAddresses,
        progress: Progress | None = None,
        tracing: Tracing | None = None,
        guard: type[DeploymentGuard] | None = None,
    ) -> None:
        """`find` may raise; then each use of the deployment does."""
        self._find = find
        self._guard = guard
        self._log: LogWriter | None = None
        self._keys: dict[Environment, ApiKeyCache] = {}
        self._rings: dict[str, SecretRing] = {}
        self._until_closed = AsyncExitStack()
        self.progress: Final = progress or Progress()
        self.tracing: Final = tracing

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self, writer_stop_s: float = STOP_S) -> None:
        """Deliver accepted records, for `writer_stop_s` at most, and close what was opened."""
        opened = self.__dict__
        async with AsyncExitStack() as stack:
            if "valkey" in opened:
                stack.push_async_callback(self.valkey.close)
            if "reader" in opened:
                stack.push_async_callback(self.reader.close)
            if self._log is not None:
                stack.push_async_callback(self._log.stop, writer_stop_s)
            await self._until_closed.aclose()

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
        """The log of the votes, with its first topic; with all others while the guard watches, or once found."""
        return VotesLog(self.namespace, self.partitions)

    async def find_topics(self) -> None:
        """Add the topics that the log of the votes grew by. Raises as `find_topics`."""
        self.votes.add(await find_topics(self.kafka_settings, self.reader, self.votes))

    @property
    def all_topics(self) -> list[Topic]:
        """Return the topics of both environments, those of the votes first."""
        return [*self.votes.topics, *topics_of(self.namespace, self.partitions)[1:]]

    @cached_property
    def purchases(self) -> Topic:
        return purchases_topic(self.namespace, self.partitions)

    @cached_property
    def valkey(self) -> ValkeyClient:
        return open_valkey(self.addresses.valkey)

    @cached_property
    def reader(self) -> LogReader:
        return LogReader(self.kafka_settings, self.votes.place)

    @cached_property
    def store(self) -> Store:
        return open_store(self.addresses.storage_url)

    @cached_property
    def guard(self) -> DeploymentGuard:
        """The guard of a service."""
        assert self._guard is not None
        return self._guard(self.kafka_settings, self.reader, self.votes, self.store, self.valkey)

    @cached_property
    def writer(self) -> LogWriter:
        """The writer of the logs, which appends after `start_writer`."""
        guard = None if self._guard is None else self.guard
        return LogWriter(self.kafka_settings, self.tracing, guard, self.votes.place)

    async def start_writer(self) -> LogWriter:
        """Return the writer, which delivers accepted records before the deployment is closed."""
        if self._log is None:
            self._log = self.writer
            await self._log.start()
        return self._log

    async def log(self, check: bool = True) -> LogWriter:
        """Return the writer for a command.

        Checks first that the logs belong to the object store and have the right settings: raises as `check`.
        """
        if check:
            await self.check()
        return await self.start_writer()

    @cached_property
    def vote_views(self) -> VoteViews:
        return VoteViews(self.valkey, self.namespace, self.votes)

    @cached_property
    def address_counters(self) -> AddressCounters:
        return AddressCounters(self.valkey, self.namespace)

    @cached_property
    def purchase_views(self) -> PurchaseViews:
        return PurchaseViews(self.valkey, self.namespace, self.purchases)

    @cached_property
    def catalogue(self) -> Catalogue:
        return Catalogue(self.namespace, self.valkey, self.log)

    @cached_property
    def test_catalogue(self) -> Catalogue:
        """The catalogue of the legacy test environment."""
        return Catalogue(legacy_test_namespace(self.namespace), self.valkey, self.log)

    def catalogue_of(self, environment: Environment) -> Catalogue:
        return self.test_catalogue if environment is Environment.TEST else self.catalogue

    @cached_property
    def projections(self) -> dict[ProjectionName, Generations]:
        """The views of each projection, with their log."""
        return projections_of(self.valkey, self.namespace, self.votes)

    async def keys_of(self, environment: Environment) -> ApiKeyCache:
        """Return the API keys of an environment, refreshed until the deployment is closed."""
        keys = self._keys.get(environment)
        if keys is None:
            catalogue = self.catalogue_of(environment)
            keys = self._keys[environment] = ApiKeyCache(catalogue.views, catalogue.key_uses)
            await self._until_closed.enter_async_context(keys.refreshing())
        return keys

    def ring(self, purpose: str) -> SecretRing:
        """Return the server's secrets of one purpose."""
        if (ring := self._rings.get(purpose)) is None:
            ring = self._rings[purpose] = SecretRing(self.store, purpose)
        return ring

    @cached_property
    def sessions(self) -> Sessions:
        return Sessions(self.ring("sessions"))

    @cached_property
    def rate_counts(self) -> RateCounters:
        return RateCounters(self.valkey, self.namespace, self.ring("rates"))

    @cached_property
    def requests(self) -> RequestKeys:
        return RequestKeys(self.valkey, self.namespace)

    async def problems(self) -> list[TallyError]:
        """Return the problems that stop services. Raises `LogUnavailable` and `StorageUnavailable`."""
        return (await examine_deployment(self.kafka_settings, self.votes, self.store)).problems

    async def check(self) -> None:
        """Raise the first problem that retries do not solve, as `check_deployment` does."""
        await check_deployment(self.kafka_settings, self.votes, self.store)


@asynccontextmanager
async def open_deployment(
    settings: DeploymentSettings, tracing: Tracing | None = None, guard: type[DeploymentGuard] = DeploymentGuard
) -> AsyncIterator[Deployment]:
    """Yield the deployment of a service, which starts while servers are unavailable, too; the guard watches."""
    async with Deployment(settings.addresses, tracing=tracing, guard=guard) as deployment:
        with suppress(ViewsUnavailable):  # then they are loaded when the first one is called
            await load_functions(deployment.valkey)
        async with deployment.guard.watching():
            yield deployment


@asynccontextmanager
async def open_alone(
    settings: S,
    tracing: Tracing | None,
    open_module: Callable[[S, Deployment], AbstractAsyncContextManager[M]],
) -> AsyncIterator[M]:
    """Open a service as a process of its own, with clients of its own."""
    async with open_deployment(settings, tracing) as deployment, open_module(settings, deployment) as module:
        yield module
