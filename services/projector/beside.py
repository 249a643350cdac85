"""What the projector serves over HTTP, beside its work."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from libs.standing.gauges import open_gauges
from libs.storage.store import Store
from libs.views.client import Valkey
from libs.web.beside import served_beside
from libs.web.metrics import metrics_route
from services.projector.settings import Settings


@asynccontextmanager
async def served(settings: Settings, valkey: Valkey, store: Store) -> AsyncIterator[None]:
    """`/metrics`, for as long as the context is open; nothing where the settings name no port."""
    if settings.metrics_port == 0:
        yield
        return
    async with (
        open_gauges(settings, valkey, store, settings.namespace, settings.partitions) as refresh_gauges,
        served_beside([metrics_route([refresh_gauges])], settings.host, settings.metrics_port),
    ):
        yield
