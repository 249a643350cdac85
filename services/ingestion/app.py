"""The composition root of ingestion: creates all objects and passes them down."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from libs.catalogue.api_key_cache import ApiKeyCache
from libs.concurrency.tasks import first_success
from libs.contracts.position_token import PositionTokens
from libs.contracts.topics import purchases_topic
from libs.deployment.identity_guard import ServiceGuard, open_guard
from libs.kafka.reader import LogReader
from libs.kafka.writer import LogWriter
from libs.monitoring.gauges import open_gauges
from libs.purchases.encryption import AccountCiphers
from libs.purchases.service import PackageBounds, PurchaseService
from libs.storage.object_store import open_store
from libs.storage.secret_rings import SecretRing
from libs.storage.secrets import account_secret, check_secrets
from libs.tally.errors import LedgerCatchingUp, ViewsUnavailable
from libs.telemetry.tracing import Tracing
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.purchases.purchase_views import PurchaseViews
from libs.views.valkey.failover_settings import FailoverCheck
from libs.views.valkey.function_loading import open_valkey
from libs.views.valkey.partition_reads import Group
from libs.views.valkey.request_counters import KeyUses, RateCounters, RequestKeys
from libs.views.votes.reply_types import Doubt
from libs.views.votes.vote_views import VoteViews
from libs.voting.cast_reader import CastCache, cast_reader
from libs.voting.service_factory import SINGLE_RECORD_BYTES, create_voting_service
from libs.voting.source_reports import SourceReporter
from libs.web.door.auth import Authenticator
from libs.web.door.sessions import Sessions
from libs.web.server.http_service import HttpModule
from services.ingestion.purchase_read_routes import purchase_read_router
from services.ingestion.purchase_routes import purchase_router
from services.ingestion.routes import hot_routes, voter_router
from services.ingestion.settings import Settings
from services.ingestion.source_routes import source_router
from services.ingestion.vote_endpoints import Voting
from services.ingestion.voter_reads import VoterReads


@asynccontextmanager
async def open_module(
    settings: Settings, tracing: Tracing | None = None, guard: ServiceGuard | None = None
) -> AsyncIterator[HttpModule]:
    """Open the service's routes and their dependencies. On exit, accepted votes are recorded first.

    Opens a guard of its own unless given that of a process with several services.
    """
    async with open_guard(settings, guard) as own, _open_guarded(settings, tracing, own) as http_module:
        yield http_module


@asynccontextmanager
async def _open_guarded(
    settings: Settings, tracing: Tracing | None, guard: ServiceGuard
) -> AsyncIterator[HttpModule]:
    valkey = open_valkey(settings.valkey_url)
    catalogue = CatalogueViews(valkey, settings.namespace)
    views = VoteViews(valkey, settings.namespace, guard.votes)
    store = open_store(settings.storage_url)
    log = LogWriter(settings, tracing, guard, guard.votes.place)
    reader = LogReader(settings, SINGLE_RECORD_BYTES, guard.votes.place)
    await log.start()
    votes = await create_voting_service(settings.namespace, guard.votes, valkey, log, reader, store, tracing)
    purchases = purchases_topic(settings.namespace, settings.partitions)
    register = PurchaseService(
        purchases,
        log,
        PurchaseViews(valkey, settings.namespace, purchases),
        AccountCiphers(partial(account_secret, store)),
        PackageBounds(catalogue, settings.purchase_package_check == "refuse"),
    )
    casts = CastCache(cast_reader(reader, guard.votes))
    keys = ApiKeyCache(catalogue, KeyUses(valkey, settings.namespace))
    proxies = settings.proxies()
    auth = Authenticator(keys, proxies, Sessions(SecretRing(store, "sessions")))
    positions = PositionTokens(SecretRing(store, "positions"))
    await positions.load()
    requests = RequestKeys(valkey, settings.namespace)

    voting = Voting(
        auth, votes, positions, settings.ingest_max_in_flight, settings.ingest_max_batch_bytes, proxies
    )

    async def check_ledger() -> None:
        await first_success(_check_gates(views, group) for group in views.live.groups(guard.votes.numbers))

    try:
        async with (
            keys.refreshing(),
            open_gauges(settings, valkey, store, settings.namespace, guard.votes) as refresh_gauges,
        ):
            yield HttpModule(
                rate_counts=RateCounters(valkey, settings.namespace, SecretRing(store, "rates")),
                hot=hot_routes(voting),
                routers=[
                    voter_router(auth, VoterReads(views, votes, catalogue, casts, positions), votes, positions),
                    purchase_router(auth, register, requests),
                    purchase_read_router(auth, register),
                    source_router(auth, SourceReporter(guard.votes, views, catalogue, log), requests, positions),
                ],
                checks={
                    "deployment": guard.check,
                    "log": log.check,
                    "ledger": check_ledger,
                    "keys": keys.check,
                    "failover": FailoverCheck(valkey, settings).check,
                },
                # contests in the cache accept votes without it
                optional_checks={"storage": partial(check_secrets, store)},
                metric_refreshers=[refresh_gauges],
                refusal=guard.refusal,
            )
    finally:
        await log.stop()
        await reader.close()
        await valkey.close()


async def _check_gates(views: VoteViews, group: Group) -> None:
    doubts = [*(await views.doubts(group)).values()]
    if not any(isinstance(doubt, Doubt) and doubt.open for doubt in doubts):
        if isinstance(doubts[0], ViewsUnavailable):
            raise doubts[0]
        raise LedgerCatchingUp("No partition accepts votes yet; `tally status` shows why.")
