"""Queues of the log's writer, one per partition, and the pace of a broker's requests, which carry several."""

import asyncio
import copy
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from aiokafka.structs import RecordMetadata

from libs.contracts.log_records import Appended
from libs.contracts.topics import Place
from libs.kafka.producers import StartedProducer
from libs.tally.errors import LogUnavailable, NotAppended
from libs.telemetry.metrics import APPEND_SECONDS, APPENDED_RECORDS
from libs.telemetry.tracing import NO_HEADERS, Headers

T = TypeVar("T")

LONGEST_WAIT_S: Final = 0.05
"""Wait for a request without any acknowledgement, before the other partitions' records are sent after it."""
FEW_RECORDS: Final = 4
"""A request of fewer records does not delay the next one: the load is low."""


class RequestPace(Generic[T]):
    """Collects the partitions of one broker that have records to send.

    With nothing in flight, they are sent at the end of the event loop's tick: a lone record never waits. Otherwise
    they wait for the first acknowledgement of the request in flight; and after one of `FEW_RECORDS` or more, until
    `linger_s` have passed since it was sent.
    """

    def __init__(self, send: Callable[["RequestPace[T]", Sequence[T]], None], linger_s: float) -> None:
        self._send = send
        self._linger_s = linger_s
        self._ready: dict[T, None] = {}
        self._next: asyncio.Handle | None = None
        self._sent_at = 0.0
        self.request = 0
        """Number of the latest request."""
        self.records = 0
        """Number of its records."""

    def add(self, partition: T) -> None:
        self._ready[partition] = None
        if self._next is None:
            self._next = asyncio.get_running_loop().call_soon(self._start)

    def landed(self, request: int) -> None:
        """Allow the next request: a partition's records of `request` were acknowledged or failed."""
        if request != self.request or self._next is None:
            return
        self.request += 1
        self._next.cancel()
        loop = asyncio.get_running_loop()
        wait_s = self._sent_at + self._linger_s - loop.time() if self.records >= FEW_RECORDS else 0.0
        # at the earliest in the next tick: one response acknowledges all of its partitions
        self._next = loop.call_later(max(0.0, wait_s), self._start)

    def _start(self) -> None:
        self._next = None
        if not self._ready:
            return
        ready, self._ready = list(self._ready), {}
        loop = asyncio.get_running_loop()
        self.request, self.records, self._sent_at = self.request + 1, 0, loop.time()
        self._next = loop.call_later(LONGEST_WAIT_S, self._start)
        self._send(self, ready)


class Record(NamedTuple):
    """A record to append."""

    value: bytes
    key: bytes | None = None
    headers: Headers = NO_HEADERS


Outcome = Appended | LogUnavailable


class RecordGroup:
    """Records of one partition that were submitted together.

    `answer` resolves with the last of their outcomes, by `deadline` (of `time.monotonic`). Records from `at` on
    are queued, unless they have an outcome; those before it are in a batch, or were.
    """

    __slots__ = ("answer", "at", "deadline", "outcomes", "records", "undecided")

    def __init__(
        self, records: Sequence[Record], deadline: float, answer: "asyncio.Future[list[Outcome]]"
    ) -> None:
        self.records = records
        self.deadline = deadline
        self.answer = answer
        self.at = 0
        self.outcomes: list[Any] = [None] * len(records)
        self.undecided = len(records)

    def decide(self, first: int, outcomes: Iterable[Outcome]) -> int:
        """Give outcomes to records from `first` on, unless they have one. Return how many it was given to."""
        if self.answer.done():  # also if nobody waits for it any more
            return 0
        before = self.undecided
        for at, outcome in enumerate(outcomes, first):
            if self.outcomes[at] is None:
                self.outcomes[at] = outcome
                self.undecided -= 1
        if not self.undecided:
            self.answer.set_result(self.outcomes)
        return before - self.undecided

    @property
    def queued(self) -> int:
        return self.outcomes[self.at :].count(None)


class Part(NamedTuple):
    """Records of a group that are in one batch: `count` of them from `first` on."""

    group: RecordGroup
    first: int
    count: int  # type: ignore[assignment]  # not the tuple's method


class PartitionQueue:
    """One partition: its queued `groups`, and the one batch in flight, sent through `link` at `sent_at`.

    `place` is its topic and number in Kafka.
    """

    __slots__ = (
        "ack",
        "acknowledged",
        "earliest",
        "end",
        "flight",
        "groups",
        "link",
        "partition",
        "place",
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
        self.groups: deque[RecordGroup] = deque()
        self.flight: list[Part] = []
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

    def fail(self, group: RecordGroup, first: int, count: int, error: LogUnavailable) -> None:
        """Give an error to pending records, a copy to each."""
        errors = (copy.copy(error) for _ in range(count))
        (self.refused if isinstance(error, NotAppended) else self.unknown).inc(group.decide(first, errors))
