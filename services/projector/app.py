"""Composition root of the projector: the projections of all topics, and fencing, in one process."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import TypeVar

from libs.catalogue.command_writer import CommandWriter
from libs.contracts.topics import Topic, catalogue_topic, legacy_test_namespace, purchases_topic, votes_topic
from libs.deployment.identity import check_deployment
from libs.deployment.identity_guard import DeploymentGuard
from libs.kafka.reader import LogReader
from libs.kafka.writer import LogWriter
from libs.monitoring.projection_names import projections_of
from libs.projection.catalogue_projection import CatalogueProjection, no_votes
from libs.projection.fencing import Fencer
from libs.projection.generation_expiry import GenerationExpiry
from libs.projection.projection_interface import Projection
from libs.projection.projector import Projector
from libs.projection.purchases_projection import PurchasesProjection
from libs.projection.settings import CATALOGUE, PURCHASES, VOTES, Pace
from libs.projection.votes_projection import VotesProjection
from libs.purchases.encryption import AccountCiphers
from libs.storage.secrets import account_secret
from libs.storage.store import StorageUnavailable, open_store
from libs.tally.errors import AppendUnknown, LogUnavailable, ViewsUnavailable
from libs.telemetry.tracing import Tracing
from libs.views.address_counters import AddressCounters
from libs.views.catalogue_views import CatalogueViews
from libs.views.function_expiry import FunctionExpiry
from libs.views.functions import load_functions, open_valkey
from libs.views.purchase_views import PurchaseViews
from libs.views.vote_views import VoteViews
from libs.voting.service_factory import create_voting_service
from services.projector.closing_manager import ClosingManager
from services.projector.http_endpoints import served
from services.projector.purchase_manager import PurchaseManager
from services.projector.purchase_saga import Steps
from services.projector.readiness import readiness_checks
from services.projector.settings import Settings
from services.projector.supervision import Run, Supervisor
from services.projector.uncounted_purchases import CountingManager

RETRY_S = 0.5
WRITER_STOP_S = 2.0
"""Seconds to wait for pending appends at the end; another projector resolves unknown ones."""

logger = logging.getLogger(__name__)

T = TypeVar("T")


async def run(settings: Settings, tracing: Tracing | None = None) -> None:
    """ProjectionName all topics until cancelled; then drain, leave the groups and close.

    Waits for Kafka and Valkey. Each part fails independently (`supervision.py`). Raises `WrongTopic`, `WrongStore`
    or `LogChanged`, alone or in an `ExceptionGroup`, if nothing can be processed any more: an operator must
    decide, and a restart does not help.
    """
    store = open_store(settings.storage_url)
    valkey = open_valkey(settings.valkey_url)
    guard = DeploymentGuard(settings, settings.namespace, settings.partitions, store, valkey)
    reader, writer = LogReader(settings), LogWriter(settings, guard=guard)
    votes = votes_topic(settings.namespace, settings.partitions)
    purchases = purchases_topic(settings.namespace, settings.partitions)
    test_namespace = legacy_test_namespace(settings.namespace)
    catalogue, test = catalogue_topic(settings.namespace), catalogue_topic(test_namespace)
    vote_views = VoteViews(valkey, settings.namespace, settings.partitions)
    catalogue_views = CatalogueViews(valkey, settings.namespace)
    purchase_views = PurchaseViews(valkey, settings.namespace, purchases)
    test_views = CatalogueViews(valkey, test_namespace)

    def projector(projection: Projection, pace: Pace) -> Projector:
        return Projector(projection, settings, settings, pace, tracing=tracing)

    addresses = AddressCounters(valkey, settings.namespace)
    votes_projector = projector(VotesProjection(votes, vote_views, addresses), VOTES)
    raise_config = config_raiser(vote_views, votes)
    catalogue_projector = projector(CatalogueProjection(catalogue, catalogue_views, raise_config), CATALOGUE)
    test_projector = projector(CatalogueProjection(test, test_views, no_votes), CATALOGUE)
    purchases_projector = projector(PurchasesProjection(purchases, purchase_views), PURCHASES)

    async def ends_of_catalogue(partitions: Collection[int] = range(catalogue.partitions)) -> Mapping[int, int]:
        return await reader.end_offsets(catalogue.name, partitions)

    async def catalogue_has(ends: Mapping[int, int]) -> bool:
        positions = await asyncio.gather(*map(catalogue_views.position, ends))
        return all(at is not None and at.offset >= end for at, end in zip(positions, ends.values(), strict=True))

    fencer = Fencer(
        votes,
        vote_views,
        writer,
        assigned=lambda: votes_projector.assigned,
        end_offset=end_of(reader, votes),
        catalogue_ends=ends_of_catalogue,
        catalogue_has=catalogue_has,
        send_deadline_s=settings.produce_deadline_ms / 1000,
    )

    closing = ClosingManager(
        votes,
        catalogue_views,
        vote_views,
        writer,
        CommandWriter(catalogue, writer, catalogue_views, AppendUnknown),
        assigned=lambda: catalogue_projector.assigned,
        source_grace_s=settings.source_grace_s,
    )

    async def account_is_folded(account: str) -> bool:
        return await catalogue_has(await ends_of_catalogue([catalogue.partition_of(account)]))

    async def manage_purchases() -> None:
        place = settings.namespace, settings.partitions
        voting = await _when_there(lambda: create_voting_service(*place, valkey, writer, reader, store))
        ciphers = AccountCiphers(partial(account_secret, store))
        steps = Steps(voting, ciphers, account_is_folded)
        await PurchaseManager(
            purchases, purchase_views, writer, steps.take, lambda: purchases_projector.assigned
        ).run()

    counting = CountingManager(
        purchases,
        purchase_views,
        catalogue_views,
        writer,
        account_is_folded,
        assigned=lambda: purchases_projector.assigned,
    )

    projectors = votes_projector, catalogue_projector, test_projector, purchases_projector
    topics = [each.topic for each in projectors]
    folds: dict[str, Run] = {f"projection of {each.topic.name}": each.run for each in projectors}
    by_topic = {each.topic.name: each for each in projectors}
    kept = GenerationExpiry(
        [
            (generations, partial(assigned_to, by_topic[generations.topic.name]))
            for generations in projections_of(valkey, settings.namespace, settings.partitions).values()
        ],
        settings.projector_keep_generation_s,
    )
    managers: dict[str, Run] = {
        "fences": fencer.run,
        "closings": closing.run,
        "purchases": manage_purchases,
        "paid votes": counting.run,
        "kept generations": kept.run,
        "functions": FunctionExpiry(valkey).run,
    }
    supervisor = Supervisor(folds | managers, needed=frozenset(folds))
    checks = readiness_checks(guard, writer, vote_views, votes.partitions, projectors, supervisor)
    try:
        async with served(settings, valkey, store, checks):
            await _when_there(lambda: check_deployment(settings, settings.namespace, settings.partitions, store))
            await _when_there(lambda: load_functions(valkey))
            await writer.start()
            logger.info("processing %s", ", ".join(topic.name for topic in topics))
            async with guard.watching():
                await supervisor.run()
    finally:
        await writer.stop(WRITER_STOP_S)
        await reader.close()
        await valkey.close()


def config_raiser(views: VoteViews, votes: Topic) -> Callable[[Mapping[str, int]], Awaitable[None]]:
    """Return a function that raises configuration versions in every partition of the votes views."""

    async def raise_config(versions: Mapping[str, int]) -> None:
        await asyncio.gather(
            *(
                views.raise_config(partition, contest, version)
                for partition in range(votes.partitions)
                for contest, version in versions.items()
            )
        )

    return raise_config


def assigned_to(projector: Projector) -> Collection[int]:
    return projector.assigned


def end_of(reader: LogReader, topic: Topic) -> Callable[[int], Awaitable[int]]:
    async def end(partition: int) -> int:
        return (await reader.end_offsets(topic.name, [partition]))[partition]

    return end


async def _when_there(step: Callable[[], Awaitable[T]]) -> T:
    """Retry `step` until Kafka, Valkey and the object store respond."""
    is_logged = False
    while True:
        try:
            return await step()
        except (LogUnavailable, StorageUnavailable, ViewsUnavailable) as error:
            if not is_logged:
                logger.warning("waiting: %s", error)
            is_logged = True
            await asyncio.sleep(RETRY_S)
