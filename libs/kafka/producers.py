"""Lifecycle of the writer's Kafka producer: start, replacement after failures, and draining."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings

FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 2.0
METADATA_S = 10.0
"""Maximum age of the topics' metadata: a changed number of partitions is detected within this time."""
NO_TOPICS: Final[list[str]] = []
HANGING_S = 1.0
"""Time without an acknowledgement after which metadata are asked for, and again as often: another broker may lead
meanwhile, which the one that has the batch cannot tell if it is cut off."""
BESIDE_S = 1.0
"""Time after which another producer is started beside one that is starting. Each asks the brokers in a random
order, and waits for one that does not answer for as long as the whole start may take."""
MOST_STARTS: Final = 4
SEQUENCE_ROOM = 2**30
"""Records after which a producer is replaced: aiokafka 0.14's sequence numbers turn negative at 2**31."""

logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class StartedProducer:
    """A started producer, with its own producer id, and the number of records sent through it."""

    producer: AIOKafkaProducer
    records: int = 0
    has_topics: bool = False
    metadata_at: float = field(default_factory=time.monotonic)

    async def partitions_of(self, topic: str) -> Collection[int]:
        """Return the topic's partitions. Raises `KafkaError`."""
        self.has_topics = True
        found: Collection[int] = await self.producer.partitions_for(topic)
        return found

    def refresh_metadata(self, now: float, *, hangs: bool) -> None:
        """Ask for the metadata of its topics if they are old; `hangs`: a batch is not acknowledged.

        aiokafka does so by itself, and as long as a producer has no topic, for those of all topics of Kafka: so
        its `metadata_max_age_ms` stays at five minutes.
        """
        if self.has_topics and now - self.metadata_at >= (HANGING_S if hangs else METADATA_S):
            self.metadata_at = now
            self.producer.client.force_metadata_update()

    async def check(self) -> None:
        """Return if any broker responds, else raise the last one's `KafkaError`."""
        client = self.producer.client
        failure: KafkaError = KafkaConnectionError("no brokers are known")
        for broker in client.cluster.brokers():
            try:
                await client.send(broker.nodeId, MetadataRequest(NO_TOPICS))
            except KafkaError as error:
                failure = error
            else:
                return
        raise failure


class Producers:
    """Keeps one producer ready; `replace` retires it and starts another, retrying until that succeeds.

    A retired producer drains in the background: an idempotent one never drops accepted records, so it may deliver
    them minutes later, when Kafka is back. Such outcomes are unknown; fences and deduplication in the fold handle
    them. While too many producers drain, only one that certainly has failed is replaced.
    """

    def __init__(self, settings: KafkaSettings, on_ready: Callable[[], None]) -> None:
        self._settings = settings
        self._on_ready = on_ready
        self._connecting: asyncio.Task[None] | None = None
        self._retired: set[asyncio.Task[None]] = set()
        self._abandoned: set[asyncio.Task[None]] = set()
        self.link: StartedProducer | None = None
        self.away: str | None = None
        """Reason why there is no producer, after the first failed attempt."""

    @property
    def retired(self) -> int:
        return len(self._retired)

    def connect(self) -> None:
        """Start a producer in the background, unless one is already starting."""
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connect())

    def replace(self, link: StartedProducer, why: str, *, always: bool = False) -> bool:
        """Stop sending through `link`; False if too many retired producers still drain, unless `always`."""
        if link is not self.link:
            return True
        if not always and len(self._retired) >= self._settings.produce_max_retired_producers:
            return False
        logger.warning("replacing the Kafka producer: %s", why)
        self.link = None
        task = asyncio.create_task(_drain(link.producer))
        self._retired.add(task)
        task.add_done_callback(self._retired.discard)
        self.connect()
        return True

    async def stop(self, timeout_s: float) -> None:
        """Let every producer deliver its accepted records, for at most `timeout_s`."""
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        link, self.link = self.link, None
        if link is not None:
            self._retired.add(asyncio.create_task(_drain(link.producer)))
        if ending := self._retired | self._abandoned:
            _, late = await asyncio.wait(ending, timeout=timeout_s)
            for task in late:
                task.cancel()

    async def _connect(self) -> None:
        backoff_s = FIRST_BACKOFF_S
        while True:
            try:
                self.link = await self._start_first()
            except Exception as error:
                if self.away is None:
                    logger.warning("Kafka does not answer: %s", error)
                self.away = str(error) or type(error).__name__
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, LONGEST_BACKOFF_S)
            else:
                self.away = None
                self._connecting = None
                self._on_ready()
                return

    async def _start_first(self) -> StartedProducer:
        """Return the first that starts, of several if it takes long. Raises the last one's error."""
        starts = [asyncio.create_task(self._start_one())]
        pending, winner = {*starts}, None
        try:
            while winner is None:
                wait_s = BESIDE_S if len(starts) < MOST_STARTS else None
                done, pending = await asyncio.wait(pending, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                winner = next((task for task in done if not task.cancelled() and not task.exception()), None)
                if winner is None and not pending:
                    failed = done.pop()
                    error = None if failed.cancelled() else failed.exception()
                    raise error or KafkaConnectionError("the client cancelled its start")
                if not done:
                    starts.append(asyncio.create_task(self._start_one()))
                    pending.add(starts[-1])
            return winner.result()
        finally:
            for task in starts:
                if task is not winner:
                    ending = asyncio.create_task(_abandon(task))
                    self._abandoned.add(ending)
                    ending.add_done_callback(self._abandoned.discard)

    async def _start_one(self) -> StartedProducer:
        settings = self._settings
        producer = AIOKafkaProducer(
            **connection(settings),
            acks="all",
            enable_idempotence=True,
            linger_ms=0,  # the writer decides when to send
            compression_type=None if settings.produce_compression == "none" else settings.produce_compression,
            max_batch_size=settings.produce_max_batch_bytes,
            max_request_size=2 * settings.produce_max_record_bytes,
        )
        try:
            # Without a timeout it waits for a producer id for ever.
            async with asyncio.timeout(settings.kafka_request_timeout_ms / 1000):
                await producer.start()
        except BaseException:
            await producer.stop()
            raise
        return StartedProducer(producer)


async def _abandon(starting: asyncio.Task[StartedProducer]) -> None:
    starting.cancel()
    await asyncio.wait([starting])
    if not starting.cancelled() and starting.exception() is None:
        await _drain(starting.result().producer)


async def _drain(producer: AIOKafkaProducer) -> None:
    try:
        await producer.stop()
    except Exception:
        logger.exception("a retired Kafka producer failed")
