"""The connections of a process: one of each, opened by its composition root and shared by all its parts."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import cached_property
from typing import Final, TypeVar

from libs.catalogue.api_key_cache import ApiKeyCache
from libs.contracts.topics import Topic, catalogue_topic, legacy_test_namespace, purchases_topic
from libs.deployment.identity_guard import DeploymentGuard, ServiceGuard
from libs.deployment.settings import DeploymentSettings
from libs.kafka.reader import LogReader
from libs.kafka.writer import LogWriter
from libs.storage.object_store import Store, open_store
from libs.storage.secret_rings import SecretRing
from libs.tally.errors import ViewsUnavailable
from libs.telemetry.tracing import Tracing
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.purchases.purchase_views import PurchaseViews
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.function_loading import load_functions, open_valkey
from libs.views.valkey.request_counters import KeyUses, RateCounters, RequestKeys
from libs.views.votes.vote_views import VoteViews
from libs.web.door.sessions import Sessions

SINGLE_RECORD_BYTES: Final = 4_000
"""Fetch size that suffices to read one vote from the log; the reader returns a larger record, too."""

S = TypeVar("S", bound=DeploymentSettings)
M = TypeVar("M")


class Connections:
    """Clients of a deployment's servers, and what all parts of a process share above them.

    Nothing is sent before the first use, and nothing is appended before `start_writer`.
    """

    def __init__(
        self,
        namespace: str,
        store: Store,
        valkey: ValkeyClient,
        guard: ServiceGuard,
        reader: LogReader,
        writer: LogWriter,
        tracing: Tracing | None = None,
    ) -> None:
        self.namespace: Final = namespace
        self.store: Final = store
        self.valkey: Final = valkey
        self.guard: Final = guard
        self.votes: Final = guard.votes
        """The log of the votes, which grows while the guard watches."""
        self.reader: Final = reader
        self.writer: Final = writer
        self.tracing: Final = tracing
        self._keys: dict[str, ApiKeyCache] = {}
        self._rings: dict[str, SecretRing] = {}
        self._catalogues: dict[str, CatalogueViews] = {}
        self._until_closed = AsyncExitStack()
        self._is_writing = False

    async def start_writer(self) -> LogWriter:
        """Return the writer, which delivers accepted records before the connections are closed."""
        if not self._is_writing:
            self._is_writing = True
            await self.writer.start()
            self._until_closed.push_async_callback(self.writer.stop)
        return self.writer

    async def keys_of(self, namespace: str) -> ApiKeyCache:
        """Return the API keys of an environment, refreshed until the connections are closed."""
        keys = self._keys.get(namespace)
        if keys is None:
            keys = self._keys[namespace] = ApiKeyCache(
                self.catalogue_views_of(namespace), KeyUses(self.valkey, namespace)
            )
            await self._until_closed.enter_async_context(keys.refreshing())
        return keys

    async def close(self) -> None:
        """End what was started, then close the clients."""
        async with AsyncExitStack() as clients:
            clients.push_async_callback(self.valkey.close)
            clients.push_async_callback(self.reader.close)
            await self._until_closed.aclose()

    def ring(self, purpose: str) -> SecretRing:
        """Return the server's secrets of one purpose."""
        if (ring := self._rings.get(purpose)) is None:
            ring = self._rings[purpose] = SecretRing(self.store, purpose)
        return ring

    def catalogue_views_of(self, namespace: str) -> CatalogueViews:
        """Return the records of an environment."""
        if (views := self._catalogues.get(namespace)) is None:
            views = self._catalogues[namespace] = CatalogueViews(self.valkey, namespace)
        return views

    @property
    def test_namespace(self) -> str:
        """Return the namespace of the legacy test environment."""
        return legacy_test_namespace(self.namespace)

    @cached_property
    def catalogue(self) -> Topic:
        return catalogue_topic(self.namespace)

    @cached_property
    def purchases(self) -> Topic:
        return purchases_topic(self.namespace, self.votes.begun_with)

    @property
    def catalogue_views(self) -> CatalogueViews:
        return self.catalogue_views_of(self.namespace)

    @cached_property
    def vote_views(self) -> VoteViews:
        return VoteViews(self.valkey, self.namespace, self.votes)

    @cached_property
    def purchase_views(self) -> PurchaseViews:
        return PurchaseViews(self.valkey, self.namespace, self.purchases)

    @cached_property
    def sessions(self) -> Sessions:
        return Sessions(self.ring("sessions"))

    @cached_property
    def rate_counts(self) -> RateCounters:
        return RateCounters(self.valkey, self.namespace, self.ring("rates"))

    @cached_property
    def requests(self) -> RequestKeys:
        return RequestKeys(self.valkey, self.namespace)


def connect(
    settings: DeploymentSettings, tracing: Tracing | None = None, guard: ServiceGuard | None = None
) -> Connections:
    """Create the clients of the servers in `settings`; without `guard`, with one that does not check yet."""
    namespace, store, valkey = (
        settings.namespace,
        open_store(settings.storage_url),
        open_valkey(settings.valkey_url),
    )
    if guard is None:
        guard = DeploymentGuard(settings, namespace, settings.partitions, store, valkey)
    place = guard.votes.place
    reader = LogReader(settings, SINGLE_RECORD_BYTES, place)
    return Connections(
        namespace, store, valkey, guard, reader, LogWriter(settings, tracing, guard, place), tracing
    )


@asynccontextmanager
async def open_connections(
    settings: DeploymentSettings, tracing: Tracing | None = None, guard: ServiceGuard | None = None
) -> AsyncIterator[Connections]:
    """Yield the connections of a service, which starts while servers are unavailable, too; the guard watches."""
    servers = connect(settings, tracing, guard)
    try:
        with suppress(ViewsUnavailable):  # then they are loaded when the first one is called
            await load_functions(servers.valkey)
        async with servers.guard.watching():
            yield servers
    finally:
        await servers.close()


@asynccontextmanager
async def open_alone(
    settings: S,
    tracing: Tracing | None,
    open_module: Callable[[S, Connections], AbstractAsyncContextManager[M]],
) -> AsyncIterator[M]:
    """Open a service as a process of its own, with connections of its own."""
    async with open_connections(settings, tracing) as servers, open_module(settings, servers) as module:
        yield module
