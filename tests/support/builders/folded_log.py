"""A votes log on the real Kafka and its view in the real Valkey, folded when a test calls for it."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaProducer

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import catalogue_topic, topics_of, votes_topic
from libs.deployment.settings import DeploymentAddresses
from libs.kafka.reader import Extent, LogReader
from libs.kafka.security import connection
from libs.kafka.topics import begin_logs, create_unbegun
from libs.projection.votes_projection import VotesProjection
from libs.tally.events import Event, LogCreated
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.function_loading import load_functions, open_valkey
from libs.views.votes.address_counters import AddressCounters
from tests.support.clients.vote_views import VoteViews
from tests.support.servers.freshness import make_fresh
from tests.support.servers.topics import new_topics

PARTITIONS = 2


class FoldedLog:
    """A log and its view: `append` writes to the log only, `fold` folds up to the log's end."""

    def __init__(
        self, stack: DeploymentAddresses, valkey: ValkeyClient, producer: AIOKafkaProducer, reader: LogReader
    ) -> None:
        self.stack = stack
        self.valkey = valkey
        self.views = VoteViews(valkey, stack.namespace, stack.partitions)
        self.topic = votes_topic(stack.namespace, stack.partitions)
        self._projection = VotesProjection(self.topic, self.views, AddressCounters(valkey, stack.namespace))
        self._producer = producer
        self._reader = reader

    async def append(
        self, events: Iterable[Event | bytes], partition: int = 0, at_ms: int | None = None, apart_ms: int = 0
    ) -> None:
        """Append events; with `given_times`, with append times from `at_ms` on, `apart_ms` apart."""
        for number, event in enumerate(events):
            value = event if isinstance(event, bytes) else vote_codec.encode(event)
            when = None if at_ms is None else at_ms + number * apart_ms
            await self._producer.send(self.topic.name, value, partition=partition, timestamp_ms=when)
        await self._producer.flush()

    async def fold(self, partition: int = 0) -> None:
        ids = await self._reader.log_ids(self.topic.name, [partition])
        start = await self.views.position(partition) or Position(ids[partition], 0)
        extent = await self._reader.extents(self.topic.name, [partition])
        ranges = {partition: Extent(start.offset, extent[partition].end)}
        async for _, records in self._reader.records(self.topic.name, ranges):
            await self._projection.fold(partition, start, list(records))
            start = Position(start.log_id, records[-1].offset + 1)

    async def begin_catalogue(self) -> None:
        """Fold the empty catalogue, so that it can be read."""
        topic = catalogue_topic(self.stack.namespace)
        views = CatalogueViews(self.valkey, self.stack.namespace)
        ids = await self._reader.log_ids(topic.name, range(topic.partitions))
        for partition, log_id in ids.items():
            begin = [(LogRecord(0, 1, b""), LogCreated(log_id))]
            await views.apply(partition, Position(log_id, 0), begin, 1)
            await make_fresh(views.fresh, partition)

    def key(self, rest: str, partition: int = 0) -> str:
        """Return a key of the view, to tamper with it."""
        return f"{self.views._base(partition)}:{rest}"


@asynccontextmanager
async def folded_log(
    kafka: str, valkey_url: str, namespace: str, *, given_times: bool = False, **description: Any
) -> AsyncIterator[FoldedLog]:
    """Open an empty log. With `given_times` the broker stores the producer's timestamps as append times."""
    stack = DeploymentAddresses(kafka, valkey_url, namespace, PARTITIONS, "", description)
    topics = topics_of(namespace, PARTITIONS)
    if given_times:
        await create_unbegun(stack.kafka_settings, topics)
        await begin_logs(stack.kafka_settings, topics)
    else:
        await new_topics(stack.kafka_settings, topics)
    valkey = open_valkey(valkey_url)
    producer = AIOKafkaProducer(**connection(stack.kafka_settings), acks="all")
    await producer.start()
    try:
        await load_functions(valkey)
        async with LogReader(stack.kafka_settings) as reader:
            yield FoldedLog(stack, valkey, producer, reader)
    finally:
        await producer.stop()
        await valkey.close()
