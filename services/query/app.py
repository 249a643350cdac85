"""The composition root of the query service: creates all objects and passes them down."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from libs.catalogue.api_key_cache import ApiKeyCache
from libs.concurrency.tasks import first_success
from libs.contracts.position_token import PositionTokens
from libs.contracts.topics import catalogue_topic, legacy_test_namespace
from libs.contracts.votes_log import VotesLog
from libs.deployment.identity_guard import ServiceGuard, open_guard
from libs.kafka.reader import LogReader
from libs.legacy.contest_reads import LegacyReads, contest_reads_router
from libs.storage.object_store import open_store
from libs.storage.secret_rings import SecretRing
from libs.tally.errors import ViewsUnavailable
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.function_loading import load_functions, open_valkey
from libs.views.valkey.request_counters import KeyUses, RateCounters
from libs.views.votes.timeline import Timeline
from libs.views.votes.vote_views import VoteViews
from libs.web.door.auth import Authenticator
from libs.web.door.sessions import Sessions
from libs.web.server.http_service import HttpModule
from services.query.certificate_endpoint import CertificateDownload
from services.query.historical_counts import PastCounts, PastReads
from services.query.position_wait import PositionWatch
from services.query.public_contest import PublicContests
from services.query.public_results import PublicResults, Receipts
from services.query.routes import (
    certificate_route,
    count_route,
    public_contest_route,
    public_route,
    timeline_route,
)
from services.query.settings import Settings
from services.query.snapshot_cache import SnapshotCache
from services.query.streams.change_detector import ChangeDetector
from services.query.streams.counting_lag import LagMeter
from services.query.streams.hub import StreamHub
from services.query.streams.routes import (
    CountStream,
    KeylessQuota,
    PublicStream,
    count_stream_route,
    public_stream_route,
)
from services.query.timeline_cache import TimelineCache
from services.query.timeline_endpoint import ContestTimeline
from services.query.vote_updates import ParticipantCounts, VoteUpdates

NO_VOTES = 0
"""Partitions of the test environment's votes topic, which does not exist."""


class QueryEnvironment(NamedTuple):
    """Components of one environment: production, or the legacy test environment with a namespace of its own."""

    auth: Authenticator
    catalogue: CatalogueViews
    snapshots: SnapshotCache


@asynccontextmanager
async def open_module(settings: Settings, guard: ServiceGuard | None = None) -> AsyncIterator[HttpModule]:
    """Open the service's routes and their dependencies.

    Opens a guard of its own unless given that of a process with several services.
    """
    async with open_guard(settings, guard) as own, _open_guarded(settings, own) as http_module:
        yield http_module


@asynccontextmanager
async def _open_guarded(settings: Settings, guard: ServiceGuard) -> AsyncIterator[HttpModule]:
    valkey = open_valkey(settings.valkey_url)
    views = VoteViews(valkey, settings.namespace, guard.votes)
    watch = PositionWatch(views)
    interval_s, wait_s = settings.count_build_interval_ms / 1000, settings.count_wait_ms / 1000
    rings: list[ApiKeyCache] = []
    proxies = settings.proxies()
    store = open_store(settings.storage_url)

    def environment(namespace: str, votes: VotesLog, sessions: Sessions | None = None) -> QueryEnvironment:
        catalogue = CatalogueViews(valkey, namespace)
        rings.append(ApiKeyCache(catalogue, KeyUses(valkey, namespace)))
        snapshots = SnapshotCache(
            views, watch, catalogue, catalogue_topic(namespace), votes=votes, interval_s=interval_s
        )
        return QueryEnvironment(Authenticator(rings[-1], proxies, sessions), catalogue, snapshots)

    production = environment(settings.namespace, guard.votes, Sessions(SecretRing(store, "sessions")))
    test_namespace = legacy_test_namespace(settings.namespace)
    test = environment(test_namespace, VotesLog(test_namespace, NO_VOTES))
    legacy = {"/legacy": LegacyReads(*production), "/legacy-test": LegacyReads(*test)}
    minutes = Timeline(valkey, settings.namespace, guard.votes)
    reads = PastReads(settings.past_rows_per_s)
    past = PastCounts(minutes, reads)
    positions = PositionTokens(SecretRing(store, "positions"))
    counts = VoteUpdates(production.auth, production.snapshots, past, guard.votes, wait_s, positions)
    timelines = ContestTimeline(production.auth, production.snapshots, TimelineCache(minutes, reads), positions)
    receipts = Receipts(store)
    public = PublicResults(production.catalogue, production.snapshots, receipts)
    changes = ChangeDetector(views, CatalogueViews(valkey, settings.namespace), guard.votes)
    log = LogReader(settings, place=guard.votes.place)
    meter = LagMeter(log, guard.votes)
    streams = StreamHub(production.auth, production.snapshots, changes, meter, catalogue_topic(settings.namespace))

    origin = settings.public_url
    figures = ParticipantCounts(production.snapshots)
    quota = KeylessQuota(settings.stream_max_public, settings.stream_max_public_per_address, proxies)

    async def check_views() -> None:
        await first_success(map(views.live.any_mark, views.live.groups(guard.votes.numbers)))

    try:
        with suppress(ViewsUnavailable):  # then they are loaded when the first one is called
            await load_functions(valkey)
        async with rings[0].refreshing(), rings[1].refreshing(), streams.running():
            yield HttpModule(
                rate_counts=RateCounters(valkey, settings.namespace, SecretRing(store, "rates")),
                hot=[
                    count_route(counts),
                    timeline_route(timelines),
                    certificate_route(CertificateDownload(production.auth, production.snapshots, store)),
                    public_route(public),
                    public_contest_route(
                        PublicContests(public, production.snapshots, production.catalogue, origin)
                    ),
                    count_stream_route(CountStream(production.auth, production.snapshots, streams), streams.end),
                    public_stream_route(PublicStream(public, streams, quota), streams.end),
                ],
                routers=[contest_reads_router(base, reads) for base, reads in legacy.items()],
                checks={"deployment": guard.check, "views": check_views, "keys": rings[0].check},
                by_votes=figures.by_votes,
                enrichers={
                    "participants": figures,
                    **{f"{base}/contests": reads.complete for base, reads in legacy.items()},
                    **{f"{base}/participants": reads.complete_participants for base, reads in legacy.items()},
                },
                refusal=guard.refusal,
            )
    finally:
        await log.close()
        await valkey.close()
