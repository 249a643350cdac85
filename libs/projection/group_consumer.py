"""A projector's member of its consumer group, by FastStream: transport security, polls, and batches as fetched."""

from itertools import chain
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from faststream import AckPolicy
from faststream.kafka import KafkaBroker, KafkaMessage
from faststream.kafka.message import FAKE_CONSUMER
from faststream.security import BaseSecurity, SASLPlaintext, SASLScram256, SASLScram512

from libs.kafka.reader import LogReader
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.projection.consumer import ConsumerSession, LogClients, Records
from libs.projection.settings import fetch_wait_ms

METADATA_MS = 5_000
"""`metadata_max_age_ms`: a deleted or recreated topic is noticed within this time."""
POLL_MS = 1_000
"""Longest wait of a poll, in milliseconds: errors of the consumer group are raised between two polls."""

_SASL: Final = {"PLAIN": SASLPlaintext, "SCRAM-SHA-256": SASLScram256, "SCRAM-SHA-512": SASLScram512}


def broker_security(settings: KafkaSettings) -> BaseSecurity:
    """Return the security options of `connection` as a FastStream object. Raises as `connection`."""
    context = connection(settings)["ssl_context"]
    if not settings.uses_sasl or settings.kafka_password is None:
        return BaseSecurity(ssl_context=context)
    security = _SASL[settings.kafka_sasl_mechanism]
    return security(settings.kafka_username, settings.kafka_password.get_secret_value(), ssl_context=context)


def connect(session: ConsumerSession) -> LogClients:
    """Create the clients of a session. Raises as `connection`."""
    return LogClients(LogReader(session.membership.kafka, place=session.topic.place), GroupConsumer(session))


class GroupConsumer:
    """Implements `Consumer`.

    FastStream swallows a handler's exceptions, and retries a broken consumer for ever: the session notices that.
    """

    def __init__(self, session: ConsumerSession) -> None:
        membership, topic = session.membership, session.topic
        self._max_records = membership.pace.max_records
        wait_ms = fetch_wait_ms(topic.partitions, membership.kafka.kafka_request_timeout_ms)
        self._broker = KafkaBroker(
            membership.kafka.kafka_bootstrap_servers.split(","),
            request_timeout_ms=membership.kafka.kafka_request_timeout_ms,
            security=broker_security(membership.kafka),
            metadata_max_age_ms=METADATA_MS,
            consumer_only=True,
            allow_auto_create_topics=False,
            apply_types=False,
            logger=None,
            parser=_parse,
            decoder=_decode,
        )
        subscriber: Any = self._broker.subscriber(
            topic.name,
            group_id=membership.group,
            client_rack=membership.kafka.kafka_client_rack or None,
            batch=True,
            ack_policy=AckPolicy.MANUAL,
            auto_offset_reset="none",
            listener=session,
            session_timeout_ms=membership.settings.projector_session_timeout_ms,
            fetch_max_wait_ms=wait_ms,
            # aiokafka goes through all partitions that often, besides whenever something happens
            consumer_timeout_ms=wait_ms,
            heartbeat_interval_ms=membership.settings.projector_session_timeout_ms // 4,
            rebalance_timeout_ms=2 * membership.settings.projector_session_timeout_ms,
        )
        subscriber(session.handle)
        subscriber.get_msg = self._poll
        self._subscriber = subscriber

    @property
    def client(self) -> AIOKafkaConsumer | None:
        return self._subscriber.consumer

    async def start(self) -> None:
        await self._broker.start()

    async def stop(self) -> None:
        await self._broker.stop()

    async def _poll(self, consumer: AIOKafkaConsumer) -> Records:
        """Return the next records. FastStream's own poll sleeps after an empty answer, so it must be short."""
        records = await consumer.getmany(timeout_ms=POLL_MS, max_records=self._max_records)
        return tuple(chain.from_iterable(records.values()))


async def _parse(batch: Records) -> KafkaMessage:
    """Pass records on unchanged: FastStream's own parser builds a message and a dict for each.

    FastStream runs a parser or decoder that is no coroutine in a thread.
    """
    return KafkaMessage(body=b"", raw_message=batch, consumer=FAKE_CONSUMER)


async def _decode(message: KafkaMessage) -> Any:
    return message.raw_message
