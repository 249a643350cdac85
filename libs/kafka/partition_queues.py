"""Queues of the log's writer, one per partition: records, the batch in flight, and the answers to callers."""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from aiokafka.structs import RecordMetadata

from libs.contracts.log_records import Appended
from libs.contracts.topics import Place
from libs.kafka.producers import StartedProducer
from libs.tally.errors import LogUnavailable, NotAppended
from libs.telemetry.metrics import APPEND_SECONDS, APPENDED_RECORDS
from libs.telemetry.tracing import Headers

Reply = Callable[[Appended | LogUnavailable], object]
"""Called once, with the outcome of an append. It must not raise."""


class Answer(Protocol):
    """The part of a future that resolves a record."""

    def done(self) -> bool: ...

    def set_result(self, result: Appended, /) -> None: ...

    def set_exception(self, exception: LogUnavailable, /) -> None: ...


class Callback:
    """An answer that calls back at once when the record is acknowledged, which a future does a tick later."""

    __slots__ = ("_reply",)

    def __init__(self, reply: Reply) -> None:
        self._reply: Reply | None = reply

    def done(self) -> bool:
        return self._reply is None

    def set_result(self, result: Appended) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply(result)

    def set_exception(self, exception: LogUnavailable) -> None:
        """Call back in the next tick, since the writer fails records while it goes through its queues."""
        reply, self._reply = self._reply, None
        if reply is not None:
            asyncio.get_running_loop().call_soon(reply, exception)


class Waiting(NamedTuple):
    """A submitted record; `answer` resolves by `deadline` (of `time.monotonic`)."""

    value: bytes
    key: bytes | None
    headers: Headers
    deadline: float
    answer: Answer


class PartitionQueue:
    """One partition: its queued `records`, and the one batch in flight, sent through `link` at `sent_at`.

    `place` is its topic and number in Kafka.
    """

    __slots__ = (
        "ack",
        "acknowledged",
        "earliest",
        "end",
        "flight",
        "link",
        "partition",
        "place",
        "records",
        "refused",
        "seconds",
        "sent_at",
        "topic",
        "unknown",
    )

    def __init__(self, topic: str, partition: int, place: Place) -> None:
        self.topic = topic
        self.partition = partition
        self.place = place
        self.records: deque[Waiting] = deque()
        self.flight: list[Waiting] = []
        self.ack: asyncio.Future[RecordMetadata] | None = None
        self.link: StartedProducer | None = None
        self.sent_at = 0.0
        self.earliest = math.inf
        """Lower bound of the deadlines of all records in the queue."""
        self.end = 1
        """Minimum offset of the next record: LogCreated has offset 0, and offsets only increase."""
        self.seconds = APPEND_SECONDS.labels(topic)
        self.acknowledged, self.refused, self.unknown = (
            APPENDED_RECORDS.labels(topic, outcome) for outcome in ("acknowledged", "refused", "unknown")
        )

    def fail(self, waiting: Waiting, error: LogUnavailable) -> None:
        """Resolve a pending record with `error`."""
        if not waiting.answer.done():
            (self.refused if isinstance(error, NotAppended) else self.unknown).inc()
            waiting.answer.set_exception(error)
