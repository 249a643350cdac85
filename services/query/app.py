"""The composition root of the query service: creates all objects and passes them down."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from libs.catalogue.contests.wall_links import Viewers, WallLinks
from libs.concurrency.tasks import first_success
from libs.contracts.position_token import PositionTokens
from libs.contracts.topics import VotesLog
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.votes.timeline import Timeline
from libs.web.door.auth import Authenticator
from libs.web.door.sessions import Sessions
from libs.web.server.http_service import HttpModule
from services.query.certificate_endpoint import certificate_router
from services.query.historical_counts import PastCounts, PastReads
from services.query.legacy_reads import LegacyReads, contest_reads_router
from services.query.participant_counts import ParticipantCounts
from services.query.position_wait import PositionWatch
from services.query.public_contest import PublicContests
from services.query.public_results import PublicResults
from services.query.reopening_preview import reopening_router
from services.query.routes import (
    count_route,
    public_contest_route,
    public_route,
)
from services.query.settings import Settings
from services.query.snapshot_cache import SnapshotCache
from services.query.streams.change_detector import ChangeDetector
from services.query.streams.counting_lag import LagMeter
from services.query.streams.hub import StreamHub
from services.query.streams.routes import (
    CountStream,
    PublicStream,
    ScreenStream,
    count_stream_route,
    public_stream_route,
    screen_stream_route,
)
from services.query.timeline_cache import TimelineCache
from services.query.timeline_endpoint import ContestTimeline, timeline_router
from services.query.vote_updates import VoteUpdates

NO_VOTES = 0
"""Partitions of the test environment's votes topic, which does not exist."""


class QueryEnvironment(NamedTuple):
    """Components of one environment: production, or the legacy test environment with a namespace of its own."""

    auth: Authenticator
    catalogue: CatalogueViews
    snapshots: SnapshotCache


@asynccontextmanager
async def open_module(settings: Settings, servers: Deployment) -> AsyncIterator[HttpModule]:
    """Open the service's routes and their dependencies."""
    views, votes = servers.vote_views, servers.votes
    watch = PositionWatch(views)
    interval_s, wait_s = settings.count_build_interval_ms / 1000, settings.count_wait_ms / 1000
    proxies = settings.proxies()

    async def environment(name: Environment, log: VotesLog, sessions: Sessions | None = None) -> QueryEnvironment:
        catalogue = servers.catalogue_of(name)
        snapshots = SnapshotCache(views, watch, catalogue.views, catalogue.topic, votes=log, interval_s=interval_s)
        auth = Authenticator(await servers.keys_of(name), proxies, sessions)
        return QueryEnvironment(auth, catalogue.views, snapshots)

    production = await environment(Environment.PRODUCTION, votes, servers.sessions)
    no_votes = VotesLog(Environment.TEST.namespace(servers.namespace), NO_VOTES)
    test = await environment(Environment.TEST, no_votes)
    legacy = {"/legacy": LegacyReads(*production), "/legacy-test": LegacyReads(*test)}
    minutes = Timeline(views)
    reads = PastReads(settings.past_rows_per_s)
    past = PastCounts(minutes, reads)
    positions = PositionTokens(servers.ring("positions"))
    counts = VoteUpdates(production.auth, production.snapshots, past, votes, wait_s, positions)
    timelines = ContestTimeline(production.snapshots, TimelineCache(minutes, reads))
    public = PublicResults(production.catalogue, production.snapshots, servers.ring("receipts"))
    changes = ChangeDetector(views, production.catalogue, votes)
    meter = LagMeter(servers.reader, votes)
    viewers = Viewers(production.auth, WallLinks(servers.ring("links"), production.catalogue))
    streams = StreamHub(viewers, production.snapshots, changes, meter, servers.catalogue.topic)
    screens = ScreenStream(viewers, production.snapshots, streams)

    origin = settings.public_url
    figures = ParticipantCounts(production.snapshots)
    bounds = settings.stream_max_public, settings.stream_max_public_per_address

    async def check_views() -> None:
        await first_success(map(views.live.any_mark, views.live.groups(votes.numbers)))

    keys = await servers.keys_of(Environment.PRODUCTION)
    async with streams.running():
        yield HttpModule(
            rate_counts=servers.rate_counts,
            hot=[
                count_route(counts),
                public_route(public),
                public_contest_route(PublicContests(public, production.snapshots, production.catalogue, origin)),
                count_stream_route(CountStream(production.auth, production.snapshots, streams), streams.end),
                screen_stream_route(screens, streams.end),
                public_stream_route(PublicStream(public, streams, *bounds, proxies), streams.end),
            ],
            routers=[
                timeline_router(production.auth, timelines, positions),
                reopening_router(production.auth, production.snapshots),
                certificate_router(production.auth, production.snapshots, servers.store),
                *(contest_reads_router(base, reads) for base, reads in legacy.items()),
            ],
            checks={"deployment": servers.guard.check, "views": check_views, "keys": keys.check},
            by_votes=figures.by_votes,
            enrichers={
                "participants": figures,
                **{f"{base}/contests": reads.complete for base, reads in legacy.items()},
                **{f"{base}/participants": reads.complete_participants for base, reads in legacy.items()},
            },
            refusal=servers.guard.refusal,
        )
