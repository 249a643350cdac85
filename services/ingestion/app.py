"""The composition root of ingestion: creates all objects and passes them down."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from libs.concurrency.tasks import first_success
from libs.contracts.position_token import PositionTokens
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.kafka.durability import recorded_on
from libs.monitoring.gauges import open_gauges
from libs.purchases.encryption import AccountCiphers
from libs.purchases.service import PackageBounds, PurchaseService
from libs.storage.secrets import account_secret, check_secrets
from libs.tally.errors import LedgerCatchingUp, ViewsUnavailable
from libs.views.valkey.failover_settings import FailoverCheck
from libs.views.valkey.partition_reads import Group
from libs.views.votes.reply_types import Doubt
from libs.views.votes.vote_views import VoteViews
from libs.voting.cast_reader import CastReader
from libs.voting.service import create_voting_service
from libs.voting.source_reports import SourceReporter
from libs.web.door.auth import Authenticator
from libs.web.server.http_service import HttpModule
from services.ingestion.purchase_routes import purchase_router
from services.ingestion.routes import hot_routes, voter_router
from services.ingestion.settings import Settings
from services.ingestion.source_routes import source_router
from services.ingestion.vote_endpoints import Voting
from services.ingestion.voter_reads import VoterReads


@asynccontextmanager
async def open_module(settings: Settings, servers: Deployment) -> AsyncIterator[HttpModule]:
    """Open the service's routes. Accepted votes are recorded before the connections close."""
    catalogue, views, store, guard = servers.catalogue.views, servers.vote_views, servers.store, servers.guard
    log = await servers.start_writer()
    votes = await create_voting_service(servers)
    register = PurchaseService(
        servers.purchases,
        log,
        servers.purchase_views,
        AccountCiphers(partial(account_secret, store)),
        PackageBounds(catalogue, settings.purchase_package_check == "refuse"),
    )
    casts = CastReader(servers.reader, servers.votes)
    keys = await servers.keys_of(Environment.PRODUCTION)
    proxies = settings.proxies()
    auth = Authenticator(keys, proxies, servers.sessions)
    positions = PositionTokens(servers.ring("positions"))
    await positions.load()
    requests = servers.requests

    voting = Voting(
        auth, votes, positions, settings.ingest_max_in_flight, settings.ingest_max_batch_bytes, proxies
    )

    async def check_ledger() -> None:
        await first_success(_check_gates(views, group) for group in views.live.groups(servers.votes.numbers))

    async with open_gauges(servers) as refresh_gauges:
        yield HttpModule(
            rate_counts=servers.rate_counts,
            hot=hot_routes(voting),
            routers=[
                voter_router(auth, VoterReads(views, votes, catalogue, casts.read, positions), votes, positions),
                purchase_router(auth, register, requests),
                source_router(auth, SourceReporter(servers.votes, views, catalogue, log), requests, positions),
            ],
            checks={
                "deployment": guard.check,
                "log": log.check,
                "ledger": check_ledger,
                "keys": keys.check,
                "failover": FailoverCheck(servers.valkey, settings).check,
            },
            # contests in the cache accept votes without it
            optional_checks={"storage": partial(check_secrets, store)},
            metric_refreshers=[refresh_gauges],
            refusal=guard.refusal,
            recorded_on=recorded_on(settings),
        )


async def _check_gates(views: VoteViews, group: Group) -> None:
    doubts = [*(await views.doubts(group)).values()]
    if not any(isinstance(doubt, Doubt) and doubt.open for doubt in doubts):
        if isinstance(doubts[0], ViewsUnavailable):
            raise doubts[0]
        raise LedgerCatchingUp("No partition accepts votes yet; `tally status` shows why.")
