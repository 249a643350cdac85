"""A catalogue on the real servers: log, projector, views and record service, over a table of resources."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from libs.catalogue.commands import CommandReader, CommandWriter, WriteRequest
from libs.catalogue.records import RecordService
from libs.catalogue.resource_definition import Table
from libs.catalogue.resource_table import RESOURCES
from libs.contracts.catalogue_events import Stored
from libs.contracts.topics import Topic, catalogue_topic
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.writer import LogWriter
from libs.projection.projector import Projector
from libs.projection.record_projections import CatalogueProjection
from libs.projection.settings import CATALOGUE, ProjectorSettings
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.function_loading import load_functions, open_valkey
from tests.support.servers.freshness import are_fresh, folding
from tests.support.servers.topics import new_topics


@dataclass
class Catalogue:
    """The catalogue of one namespace; it is folded within `folding`."""

    namespace: str
    topic: Topic
    kafka: KafkaSettings
    valkey: ValkeyClient
    log: LogWriter
    reader: LogReader
    views: CatalogueViews
    writer: CommandWriter
    record_service: RecordService
    raised: dict[str, int] = field(default_factory=dict)
    """Contest versions that would have been sent to the votes views."""

    @asynccontextmanager
    async def folding(self) -> AsyncIterator[None]:
        async def raise_config(versions: Mapping[str, int]) -> None:
            self.raised.update({key: max(at, self.raised.get(key, -1)) for key, at in versions.items()})

        projection = CatalogueProjection(self.topic, self.views, raise_config)
        projector = Projector(
            projection, self.kafka, ProjectorSettings(projector_check_interval_ms=100), CATALOGUE
        )
        async with folding(projector, self.views.fresh, self.topic.partitions):
            yield

    async def is_fresh(self) -> bool:
        """Return whether every partition can be read."""
        return await are_fresh(self.views.fresh, self.topic.partitions)

    def another_record_service(self, table: Table = RESOURCES) -> RecordService:
        """Return another record service, as in another process."""
        earlier = CommandReader(self.topic, self.reader)
        return RecordService(table, self.views, _writer(self.topic, self.log, self.views), earlier=earlier)

    async def create(self, resource: str, account: str, body: dict[str, Any], parent: str = "") -> Stored:
        row = self.record_service.table[resource]
        return (await self.record_service.create(row, account, body, WriteRequest.once(), parent=parent)).stored

    async def destroy_view(self, account: str) -> None:
        """Delete the view of the account's partition, as if Valkey had lost its data."""
        partition = self.topic.partition_of(account)
        keys = await self.valkey.call("KEYS", f"{self.views.generations.base(partition)}:*")
        if keys:
            await self.valkey.call("DEL", *keys)


@asynccontextmanager
async def open_catalogue(
    kafka: str, valkey_address: str, namespace: str, table: Table = RESOURCES
) -> AsyncIterator[Catalogue]:
    """Open a new catalogue, not yet folded."""
    settings = KafkaSettings(kafka_bootstrap_servers=kafka)
    topic = catalogue_topic(namespace)
    await new_topics(settings, [topic])
    valkey, log, reader = open_valkey(valkey_address), LogWriter(settings), LogReader(settings)
    await log.start()
    try:
        await load_functions(valkey)
        views = CatalogueViews(valkey, namespace)
        writer = _writer(topic, log, views)
        record_service = RecordService(table, views, writer, earlier=CommandReader(topic, reader))
        yield Catalogue(namespace, topic, settings, valkey, log, reader, views, writer, record_service)
    finally:
        await reader.close()
        await log.stop()
        await valkey.close()


def _writer(topic: Topic, log: LogWriter, views: CatalogueViews) -> CommandWriter:
    """Return a writer that waits long for the fold: a busy machine folds late."""
    return CommandWriter(topic, log, views, deadline_s=60.0)
