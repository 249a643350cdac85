"""The composition root of the dashboard."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from libs.catalogue.keyring import KeyRing
from libs.storage.secrets import session_secret
from libs.storage.store import open_store
from libs.views.catalogue import CatalogueViews
from libs.views.functions import open_valkey
from libs.views.requests import RequestKeys
from libs.web.auth import Authenticator
from libs.web.service import Surface
from libs.web.sessions import Sessions
from services.dashboard.pages import page_routes
from services.dashboard.session_routes import session_router
from services.dashboard.settings import Settings


@asynccontextmanager
async def open_surface(settings: Settings) -> AsyncIterator[Surface]:
    """Pages, their parts, and log-in; what the pages show they ask the API for."""
    valkey = open_valkey(settings.valkey_url)
    keys = KeyRing(CatalogueViews(valkey, settings.namespace))
    sessions = Sessions(partial(session_secret, open_store(settings.storage_url)))
    auth = Authenticator(keys, sessions)
    try:
        async with keys.kept_fresh():
            yield Surface(
                routers=[session_router(auth, keys, sessions, RequestKeys(valkey, settings.namespace))],
                routes=page_routes(),
            )
    finally:
        await valkey.close()
