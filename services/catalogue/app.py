"""Composition root of the catalogue service."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from fastapi import APIRouter

from libs.catalogue.api_key_cache import ApiKeyCache
from libs.catalogue.commands import CommandWriter
from libs.catalogue.contests.reopening import Reopener
from libs.catalogue.records import ChangeGuard, Guard, RecordService
from libs.catalogue.resource_definition import Document
from libs.catalogue.resource_table import CONTESTS, FILES, IMAGES, PARTICIPANTS, RESOURCES
from libs.concurrency.tasks import first_success
from libs.contracts.topics import CATALOGUE_PARTITIONS, legacy_test_namespace
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Catalogue, Environment
from libs.deployment.votes_topics import VotesTopics
from libs.kafka.writer import LogWriter
from libs.legacy.articles import Articles
from libs.legacy.contests import ContestHandlers
from libs.legacy.conventions import Conventions
from libs.legacy.feeds import Feeds
from libs.legacy.images import ImageHandlers
from libs.legacy.routing import LegacyEnvironment, LegacyRoutes
from libs.legacy.timeslots import Timeslots
from libs.media.clamd import Clamd
from libs.media.decoder_pool import Decoders
from libs.media.image_store import ImageStore
from libs.media.url_fetcher import FetcherOnDemand, parse_allowed
from libs.storage.object_store import StorageUnavailable
from libs.storage.secrets import check_secrets
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.web.door.auth import Authenticator
from libs.web.door.client_address import Proxies
from libs.web.door.sessions import Sessions
from libs.web.server.http_service import ByVotes, Complete, HttpModule
from services.catalogue.account_routes import account_router
from services.catalogue.contest_routes import ClosedContests, reopening_router
from services.catalogue.file_routes import file_content_router, file_router
from services.catalogue.files import Files, UploadUrls
from services.catalogue.image_routes import image_router
from services.catalogue.images import Images, ImageUrls
from services.catalogue.keys import AccountKeys, key_router
from services.catalogue.media_routes import MediaEnvironment, media_router
from services.catalogue.routes import build_router
from services.catalogue.settings import Settings
from services.catalogue.show import show_router
from services.catalogue.vote_sources import VoteSources, vote_source_router


@dataclass(frozen=True, slots=True)
class CatalogueEnvironment:
    """Components of one environment: production, or the legacy test environment with a namespace of its own."""

    views: CatalogueViews
    writer: CommandWriter
    record_service: RecordService
    keys: ApiKeyCache
    auth: Authenticator

    def legacy(
        self,
        base: Literal["/legacy", "/legacy-test"],
        enrichers: Mapping[str, Complete],
        images: Images,
        image_max_bytes: int,
    ) -> LegacyEnvironment:
        now = self.writer.now
        return LegacyEnvironment(
            base, self.auth, self.record_service, self.views, now, enrichers, images, image_max_bytes
        )


def environment_of(
    catalogue: Catalogue,
    log: LogWriter,
    keys: ApiKeyCache,
    proxies: Proxies,
    guards: Mapping[str, Guard] | None = None,
    change_guards: Mapping[str, ChangeGuard] | None = None,
    sessions: Sessions | None = None,
    new_members: Mapping[str, Callable[[], Document]] | None = None,
) -> CatalogueEnvironment:
    writer = CommandWriter(catalogue.topic, log, catalogue.views)
    return CatalogueEnvironment(
        catalogue.views,
        writer,
        RecordService(RESOURCES, catalogue.views, writer, guards, change_guards, new_members),
        keys,
        Authenticator(keys, proxies, sessions),
    )


def members_of_new(topics: VotesTopics) -> Document:
    """Return the server's members of a new contest: its votes topic, unless that is the first one."""
    topic = topics.for_new_contests()
    return {"votes_from": topic.first} if topic.first else {}


@asynccontextmanager
async def open_module(
    settings: Settings,
    servers: Deployment,
    enrichers: Mapping[str, Complete] | None = None,
    by_votes: ByVotes | None = None,
) -> AsyncIterator[HttpModule]:
    """Open the service's routers and checks; they work as long as the context is open.

    It opens while Kafka or Valkey are unavailable, too: requests then get 503 until they are back.

    `enrichers` maps a resource's name (with its base path in legacy) to the function that adds other services'
    members to reads; `by_votes` is that of the query service.
    """
    enrichers = enrichers or {}
    store, guard, votes = servers.store, servers.guard, servers.vote_views
    log = await servers.start_writer()
    closed = ClosedContests(servers.catalogue.views, votes, servers.votes)
    proxies = settings.proxies()
    guards = {PARTICIPANTS.name: closed.participant_may_go}
    change_guards = {CONTESTS.name: closed.contest_may_change}
    new_members = {CONTESTS.name: partial(members_of_new, guard.topics)}
    production = environment_of(
        servers.catalogue,
        log,
        await servers.keys_of(Environment.PRODUCTION),
        proxies,
        guards,
        change_guards,
        servers.sessions,
        new_members,
    )
    test_keys = await servers.keys_of(Environment.TEST)
    test = environment_of(servers.test_catalogue, log, test_keys, proxies)
    scanner = Clamd(settings.scanner, settings.scan_timeout_ms / 1000) if settings.scanner else None
    urls = UploadUrls(servers.ring("upload addresses"), production.views, settings.public_url)
    account_keys = AccountKeys(
        production.writer, production.views, servers.catalogue.key_uses, settings.rate_per_key
    )
    image_urls = ImageUrls(settings.public_url)
    files = Files(settings.namespace, production.record_service, store, scanner)
    fetcher = FetcherOnDemand(
        parse_allowed(settings.fetch_allow), settings.image_max_bytes, settings.fetch_timeout_ms / 1000
    )
    decoders = Decoders(settings.image_max_pixels, settings.image_cpu_ms / 1000)

    def image_store(namespace: str) -> ImageStore:
        return ImageStore(store, namespace, decoders)

    media = [
        MediaEnvironment(production.views, production.auth, image_store(settings.namespace)),
        MediaEnvironment(test.views, test.auth, image_store(legacy_test_namespace(settings.namespace))),
    ]

    async def check_views() -> None:
        await first_success(map(production.views.position, range(CATALOGUE_PARTITIONS)))

    try:
        with suppress(StorageUnavailable):
            await urls.load()
        images, test_images = (
            Images(each.record_service, its_media.image_store, fetcher, scanner)
            for each, its_media in zip((production, test), media, strict=True)
        )
        largest = settings.image_max_bytes
        yield HttpModule(
            rate_counts=servers.rate_counts,
            routers=[
                # first, so that `upload_from_url` is not read as the key of an image
                image_router(production.auth, images, image_urls, largest),
                build_router(
                    production.record_service,
                    production.auth,
                    {**enrichers, FILES.name: urls, IMAGES.name: image_urls},
                    by_votes,
                ),
                legacy_router(production.legacy("/legacy", enrichers, images, largest)),
                legacy_router(test.legacy("/legacy-test", enrichers, test_images, largest)),
                account_router(production.auth, production.record_service),
                file_content_router(production.auth, production.views, files, urls, settings.file_max_bytes),
                file_router(production.auth, files, urls),
                media_router(media),
                vote_source_router(production.auth, VoteSources(production.record_service, production.views)),
                show_router(production.auth, production.record_service, production.views),
                key_router(production.auth, account_keys),
                reopening_router(
                    production.auth,
                    Reopener(production.record_service, votes, servers.votes),
                    servers.requests,
                ),
            ],
            checks={
                "deployment": guard.check,
                "log": log.check,
                "views": check_views,
                "keys": production.keys.check,
            },
            optional_checks={"storage": partial(check_secrets, store)},
            refusal=guard.refusal,
        )
    finally:
        await fetcher.close()
        await decoders.close()


HANDLERS: Final = (ContestHandlers, Articles, Conventions, Timeslots, Feeds, ImageHandlers)


def legacy_router(environment: LegacyEnvironment) -> APIRouter:
    routes = LegacyRoutes(environment.base, environment.auth, environment.views)
    for handlers in HANDLERS:
        handlers(environment).add_to(routes)
    return routes.router
