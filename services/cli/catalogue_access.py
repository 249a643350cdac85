"""The catalogue of one world, for commands that read and write it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Annotated, NamedTuple

import typer

from libs.catalogue.writer import CatalogueWriter
from libs.contracts.topics import catalogue_topic, test_world
from libs.kafka.errors import AppendUnknown
from libs.kafka.settings import KafkaSettings
from libs.kafka.writer import LogWriter
from libs.views.catalogue import CatalogueViews
from libs.views.functions import open_valkey
from libs.views.key_uses import KeyUses


class Environment(StrEnum):
    """Which world is meant: nothing of one is known in the other."""

    PRODUCTION = "production"
    TEST = "test"

    def namespace(self, production: str) -> str:
        """Its namespace, beside the deployment's own."""
        return test_world(production) if self is Environment.TEST else production


World = Annotated[Environment, typer.Option("--environment", help="The legacy test environment is apart.")]


class CatalogueAccess(NamedTuple):
    """What commands work with."""

    writer: CatalogueWriter
    views: CatalogueViews
    uses: KeyUses


@asynccontextmanager
async def open_catalogue_access(
    kafka: KafkaSettings, valkey_url: str, namespace: str
) -> AsyncIterator[CatalogueAccess]:
    """For one world, `namespace`. The projector must be running: what is written is there once it is folded."""
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
