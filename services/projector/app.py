"""Composition root of the projector: the projections of all topics, and fencing, in one process."""

import logging
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from libs.catalogue.commands import CommandWriter
from libs.contracts.topics import Topic
from libs.deployment.deployment import Deployment
from libs.deployment.identity_guard import DeploymentGuard
from libs.projection.consumer import Connect
from libs.projection.fencing import CatalogueProgress, Fencer
from libs.projection.generation_expiry import expire_generations
from libs.projection.group_consumer import connect
from libs.projection.projection_interface import Projection
from libs.projection.projector import Projector
from libs.projection.record_projections import CatalogueProjection, ConfigVersions, PurchasesProjection, no_votes
from libs.projection.settings import CATALOGUE, PURCHASES, VOTES, Pace
from libs.projection.votes_projection import VotesProjection
from libs.projection.votes_projector import VotesProjector
from libs.purchases.encryption import AccountCiphers
from libs.storage.secrets import account_secret
from libs.telemetry.tracing import Tracing
from libs.views.valkey.function_loading import load_functions
from libs.voting.service import create_contest_cache, create_voting_service
from services.projector.closing_manager import ClosingManager
from services.projector.http_endpoints import readiness_checks, served
from services.projector.loss_recorder import LossRecorder
from services.projector.purchase_manager import PurchaseManager
from services.projector.purchase_steps import Steps
from services.projector.settings import Settings
from services.projector.supervision import Run, Startup, TaskSupervisor
from services.projector.uncounted_purchases import CountingManager

WRITER_STOP_S = 2.0
"""Seconds to wait for pending appends at the end; another projector resolves unknown ones."""

logger = logging.getLogger(__name__)


async def run(settings: Settings, tracing: Tracing | None = None) -> None:
    """Fold all topics until cancelled; then drain, leave the groups and close.

    Waits for Kafka, its topics, Valkey and the object store. Each part fails independently (`supervision.py`).
    Raises `WrongTopic`, `WrongStore` or `LogChanged`, alone or in an `ExceptionGroup`, if nothing can be processed
    any more: an operator must decide, and a restart does not help.
    """
    servers = Deployment(settings.addresses, guard=DeploymentGuard)
    projectors = open_projectors(settings, servers, tracing)
    folds: dict[str, Run] = {f"projection of {each.topic.name}": each.run for each in projectors}
    managers = manager_runs(settings, servers, projectors)
    supervisor = TaskSupervisor(folds | managers, needed=frozenset(folds))
    startup = Startup()
    checks = {**readiness_checks(servers, projectors, supervisor), "start": startup.check}
    try:
        async with served(settings, servers, checks):
            await startup.until_done(servers.check)
            await startup.until_done(lambda: load_functions(servers.valkey))
            startup.end()
            await servers.start_writer()
            logger.info("processing %s", ", ".join(each.topic.name for each in projectors))
            async with servers.guard.watching():
                await supervisor.run()
    finally:
        await servers.close(WRITER_STOP_S)


class Projectors(NamedTuple):
    votes: VotesProjector
    catalogue: Projector
    test_catalogue: Projector
    purchases: Projector


def open_projectors(
    settings: Settings, servers: Deployment, tracing: Tracing | None, connect: Connect = connect
) -> Projectors:
    """Create the projector of each topic."""

    def projector(projection: Projection, pace: Pace) -> Projector:
        return Projector(projection, settings, settings, pace, connect=connect, tracing=tracing)

    test = servers.test_catalogue

    def of_votes(topic: Topic) -> Projector:
        return projector(VotesProjection(topic, servers.vote_views, servers.address_counters), VOTES)

    raise_config = ConfigVersions(servers.vote_views, servers.guard.topics.partitions_before_raise)
    catalogue = CatalogueProjection(servers.catalogue.topic, servers.catalogue.views, raise_config)
    return Projectors(
        votes=VotesProjector(servers.votes, of_votes),
        catalogue=projector(catalogue, CATALOGUE),
        test_catalogue=projector(CatalogueProjection(test.topic, test.views, no_votes), CATALOGUE),
        purchases=projector(PurchasesProjection(servers.purchases, servers.purchase_views), PURCHASES),
    )


def manager_runs(settings: Settings, servers: Deployment, projectors: Projectors) -> dict[str, Run]:
    """Return the main loop of each process manager, by its name in logs and readiness."""
    writer, catalogue = servers.writer, servers.catalogue
    progress = CatalogueProgress(servers.reader, catalogue.topic, catalogue.views)
    fencer = Fencer(
        servers.votes,
        servers.vote_views,
        writer,
        servers.reader,
        progress,
        assigned=lambda: projectors.votes.assigned,
        send_deadline_s=settings.produce_deadline_ms / 1000,
    )
    closing = ClosingManager(
        servers.votes,
        catalogue.views,
        servers.vote_views,
        writer,
        CommandWriter(catalogue.topic, writer, catalogue.views),
        assigned=lambda: projectors.catalogue.assigned,
        source_grace_s=settings.source_grace_s,
    )
    counting = CountingManager(
        servers.purchases,
        servers.purchase_views,
        catalogue.views,
        writer,
        progress.has_folded_account,
        assigned=lambda: projectors.purchases.assigned,
    )
    by_topic = {each.topic.name: each for each in projectors}
    kept = [(each, partial(assigned_to, by_topic[each.topic.name])) for each in servers.projections.values()]
    return {
        "fences": fencer.run,
        "lost records": LossRecorder(servers, writer, kept).run,
        "closings": closing.run,
        "purchases": partial(manage_purchases, servers, projectors.purchases, progress),
        "paid votes": counting.run,
        "kept generations": partial(expire_generations, kept, settings.projector_keep_generation_s),
    }


async def manage_purchases(servers: Deployment, projector: Projector, progress: CatalogueProgress) -> None:
    """Cast purchased votes."""
    voting = await create_voting_service(servers)
    ciphers, kept = (
        AccountCiphers(partial(account_secret, servers.store)),
        create_contest_cache(servers, with_deleted=True),
    )
    steps = Steps(voting, kept, ciphers, progress.has_folded_account)
    manager = PurchaseManager(
        servers.purchases, servers.purchase_views, servers.writer, steps.take, lambda: projector.assigned
    )
    await manager.run()


def assigned_to(projector: Projector | VotesProjector) -> Collection[int]:
    return projector.assigned
