"""Access to the catalogue of one environment, for commands that read and write it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Annotated, NamedTuple

import typer

from libs.catalogue.writer import CatalogueWriter
from libs.contracts.topics import catalogue_topic, legacy_test_namespace
from libs.kafka.settings import KafkaSettings
from libs.kafka.writer import LogWriter
from libs.tally.errors import AppendUnknown
from libs.views.catalogue import CatalogueViews
from libs.views.functions import open_valkey
from libs.views.key_uses import KeyUses


class Environment(StrEnum):
    """Production or the legacy test environment; they share no data."""

    PRODUCTION = "production"
    TEST = "test"

    def namespace(self, production: str) -> str:
        """Return the environment's namespace, derived from the deployment's own."""
        return legacy_test_namespace(production) if self is Environment.TEST else production


EnvironmentOption = Annotated[
    Environment, typer.Option("--environment", help="Production, or the separate legacy test environment.")
]


class CatalogueAccess(NamedTuple):
    """Connections to the catalogue's log and views, and to the last uses of API keys."""

    writer: CatalogueWriter
    views: CatalogueViews
    uses: KeyUses


@asynccontextmanager
async def open_catalogue_access(
    kafka: KafkaSettings, valkey_url: str, namespace: str
) -> AsyncIterator[CatalogueAccess]:
    """Connect to the catalogue of one environment, `namespace`.

    A projector must run: writes return when folded.
    """
    valkey = open_valkey(valkey_url)
    log = LogWriter(kafka)
    await log.start()
    try:
        views = CatalogueViews(valkey, namespace)
        yield CatalogueAccess(
            CatalogueWriter(catalogue_topic(namespace), log, views, AppendUnknown),
            views,
            KeyUses(valkey, namespace),
        )
    finally:
        await log.stop()
        await valkey.close()
