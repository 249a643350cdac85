"""The composition root of the dashboard."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version

from libs.catalogue.api_key_cache import ApiKeyCache
from libs.contracts.votes_log import VotesLog
from libs.deployment.votes_topics import open_votes_log
from libs.kafka.reader import LogReader
from libs.monitoring.collector import StatusCollector
from libs.storage.object_store import open_store
from libs.storage.secret_rings import SecretRing
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.function_loading import open_valkey
from libs.views.valkey.request_counters import KeyUses, RateCounters, RequestKeys
from libs.web.door.auth import Authenticator
from libs.web.door.sessions import Sessions
from libs.web.server.health import Check
from libs.web.server.http_service import HttpModule
from services.dashboard.pages import code_route, page_routes
from services.dashboard.session_routes import session_router
from services.dashboard.settings import Settings
from services.dashboard.status import StatusCache, status_router


@asynccontextmanager
async def open_module(
    settings: Settings, checks: Mapping[str, Check] | None = None, votes: VotesLog | None = None
) -> AsyncIterator[HttpModule]:
    """Open the pages, their assets, and log-in; the pages read their data from the API.

    The status for operators includes `checks`, those of the services in the same process; `votes` is their log.
    """
    async with open_votes_log(settings, votes) as log, _open(settings, checks, log) as http_module:
        yield http_module


@asynccontextmanager
async def _open(
    settings: Settings, checks: Mapping[str, Check] | None, votes: VotesLog
) -> AsyncIterator[HttpModule]:
    valkey = open_valkey(settings.valkey_url)
    keys = ApiKeyCache(CatalogueViews(valkey, settings.namespace), KeyUses(valkey, settings.namespace))
    store = open_store(settings.storage_url)
    sessions = Sessions(SecretRing(store, "sessions"))
    auth = Authenticator(keys, settings.proxies(), sessions)
    reader = LogReader(settings, place=votes.place)
    collector = StatusCollector(reader, valkey, store, settings.namespace, votes)
    status = StatusCache(
        collector, checks or {}, version("tallykeeper"), settings.projector_urls(), settings.command_options
    )
    try:
        async with keys.refreshing():
            yield HttpModule(
                rate_counts=RateCounters(valkey, settings.namespace, SecretRing(store, "rates")),
                routers=[
                    session_router(auth, keys, sessions, RequestKeys(valkey, settings.namespace)),
                    status_router(auth, status),
                ],
                routes=[code_route(auth), *page_routes(settings.dashboard_language)],
            )
    finally:
        await status.close()
        await reader.close()
        await valkey.close()
