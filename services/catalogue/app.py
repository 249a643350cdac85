"""Composition root of the catalogue service."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, Literal, NamedTuple

from fastapi import APIRouter

from libs.catalogue.commands import CommandReader, CommandWriter
from libs.catalogue.contests.contest_votes import ContestVotes
from libs.catalogue.contests.reopening import Reopener
from libs.catalogue.contests.wall_links import WallLinks
from libs.catalogue.records import Quota, RecordService
from libs.catalogue.resource_table import FILES, IMAGES, RESOURCES
from libs.concurrency.tasks import first_success
from libs.contracts.topics import CATALOGUE_PARTITIONS
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.legacy.articles import Articles
from libs.legacy.contests import ContestHandlers
from libs.legacy.conventions import Conventions
from libs.legacy.feeds import Feeds
from libs.legacy.images import ImageHandlers
from libs.legacy.routing import LegacyEnvironment, LegacyRoutes
from libs.legacy.timeslots import Timeslots
from libs.media.allowed_addresses import parse_allowed
from libs.media.clamd import Clamd
from libs.media.decoder_pool import Decoders
from libs.media.image_store import ImageStore
from libs.media.images import Images, ImageUrls
from libs.media.url_fetcher import FetcherOnDemand
from libs.storage.object_store import StorageUnavailable
from libs.storage.secrets import check_secrets
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.web.door.auth import Authenticator
from libs.web.door.sessions import Sessions
from libs.web.server.http_service import ByVotes, Complete, HttpModule
from services.catalogue.account import AccountKeys, account_router, key_router
from services.catalogue.contest_routes import reopening_router
from services.catalogue.file_routes import Files, UploadUrls, file_content_router, file_router
from services.catalogue.image_routes import MediaEnvironment, image_router, media_router
from services.catalogue.routes import build_router
from services.catalogue.settings import Settings
from services.catalogue.show import counts_now, link_router, show_router
from services.catalogue.vote_sources import VoteSources, vote_source_router


class CatalogueEnvironment(NamedTuple):
    """Components of one environment: production, or the legacy test environment with a namespace of its own."""

    views: CatalogueViews
    writer: CommandWriter
    records: RecordService
    auth: Authenticator
    images: Images
    media: MediaEnvironment


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
    store, guard, votes, proxies = servers.store, servers.guard, servers.vote_views, settings.proxies()
    log = await servers.start_writer()
    scanner = Clamd(settings.scanner, settings.scan_timeout_ms / 1000) if settings.scanner else None
    fetcher = FetcherOnDemand(
        parse_allowed(settings.fetch_allow), settings.image_max_bytes, settings.fetch_timeout_ms / 1000
    )
    quota = Quota(settings.account_max_bytes, settings.account_max_records)
    decoders = Decoders(settings.image_max_pixels, settings.image_cpu_ms / 1000)

    async def environment(
        name: Environment, sessions: Sessions | None = None, votes: ContestVotes | None = None
    ) -> CatalogueEnvironment:
        catalogue, keys = servers.catalogue_of(name), await servers.keys_of(name)
        views, auth = catalogue.views, Authenticator(keys, proxies, sessions)
        writer = CommandWriter(catalogue.topic, log, views)
        earlier = CommandReader(catalogue.topic, servers.reader)
        records = RecordService(RESOURCES, views, writer, votes=votes, earlier=earlier, quota=quota)
        pictures = ImageStore(store, name.namespace(servers.namespace), decoders)
        images, media = Images(records, pictures, fetcher, scanner), MediaEnvironment(views, auth, pictures)
        return CatalogueEnvironment(views, writer, records, auth, images, media)

    contest_votes = ContestVotes(servers.catalogue.views, votes, servers.votes, guard.topics.for_new_contests)
    production = await environment(Environment.PRODUCTION, servers.sessions, contest_votes)
    test = await environment(Environment.TEST)
    keys, records, auth = await servers.keys_of(Environment.PRODUCTION), production.records, production.auth
    urls = UploadUrls(servers.ring("upload addresses"), production.views, settings.public_url)
    image_urls = ImageUrls(settings.public_url)
    counts = counts_now(votes, servers.votes)
    links = WallLinks(servers.ring("links"), production.views)
    account_keys = AccountKeys(
        production.writer, production.views, servers.catalogue.key_uses, settings.rate_per_key
    )
    files = Files(servers.namespace, records, store, scanner)

    async def check_views() -> None:
        await first_success(map(production.views.position, range(CATALOGUE_PARTITIONS)))

    try:
        with suppress(StorageUnavailable):
            await urls.load()
        yield HttpModule(
            rate_counts=servers.rate_counts,
            routers=[
                # first, so that `upload_from_url` is not read as the key of an image
                image_router(auth, production.images, image_urls, settings.image_max_bytes),
                build_router(records, auth, {**enrichers, FILES.name: urls, IMAGES.name: image_urls}, by_votes),
                legacy_router("/legacy", production, enrichers, settings.image_max_bytes),
                legacy_router("/legacy-test", test, enrichers, settings.image_max_bytes),
                account_router(auth, records),
                file_content_router(auth, production.views, files, urls, settings.file_max_bytes),
                file_router(auth, files, urls),
                media_router([production.media, test.media]),
                vote_source_router(auth, VoteSources(records, production.views)),
                show_router(auth, records, production.views, counts),
                link_router(auth, records, links, settings.public_url),
                key_router(auth, account_keys),
                reopening_router(auth, Reopener(records, votes, servers.votes), servers.requests),
            ],
            checks={
                "deployment": guard.check,
                "log": log.check,
                "views": check_views,
                "keys": keys.check,
            },
            optional_checks={"storage": partial(check_secrets, store)},
            refusal=guard.refusal,
        )
    finally:
        await fetcher.close()
        await decoders.close()


HANDLERS: Final = (ContestHandlers, Articles, Conventions, Timeslots, Feeds, ImageHandlers)


def legacy_router(
    base: Literal["/legacy", "/legacy-test"],
    environment: CatalogueEnvironment,
    enrichers: Mapping[str, Complete],
    image_max_bytes: int,
) -> APIRouter:
    views, writer, records, auth, images, _ = environment
    legacy = LegacyEnvironment(base, auth, records, views, writer.now, enrichers, images, image_max_bytes)
    routes = LegacyRoutes(base, auth, views)
    for handlers in HANDLERS:
        handlers(legacy).add_to(routes)
    return routes.router
