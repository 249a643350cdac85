"""A simulated log: its brokers, the writer and the reader of a process, and the groups of its consumers.

An append is acknowledged, refused or unknown; a record whose outcome is unknown is in the log, never will be, or
comes late; some are there twice. Leaders change: then batches in flight are in doubt and others wait. What is
acknowledged stays, unless all replicas lose it at once. A record can be read once it is replicated, a little after
it was appended.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

from aiokafka import TopicPartition

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Appended, LogRecord
from libs.contracts.topics import Placement, Topic
from libs.kafka.errors import NO_ANSWER
from libs.kafka.partition_queues import Outcome, Record, RecordGroup
from libs.kafka.reader import Extent
from libs.tally.errors import AppendUnknown, LogUnavailable, NotAppended
from libs.tally.events import LogCreated
from tests.simulation.faults import Streams
from tests.simulation.virtual_loop import BEGIN_S, SimulatedProcess, VirtualLoop

if TYPE_CHECKING:
    from tests.simulation.deployment import Deployment

SESSION_S: Final = 6.0
"""Silence after which a group's member is expelled."""
REBALANCE_S: Final = 0.02
SPLIT: Final = 0.2
"""Probability that several records that wait go in several batches."""


@dataclass(slots=True, eq=False)
class Partition:
    """Records of one partition. Those from `visible` on cannot be read yet."""

    records: list[LogRecord] = field(default_factory=list)
    visible: int = 0
    leaderless_until: float = -1.0
    unfetched_until: float = -1.0
    """Consumers receive nothing until then."""
    readers: list[Callable[[], None]] = field(default_factory=list)


class Brokers:
    """The log: partitions by topic and number, as Kafka has them."""

    def __init__(self, loop: VirtualLoop, streams: Streams) -> None:
        self.loop = loop
        self.partitions: dict[tuple[str, int], Partition] = {}
        self.groups: dict[str, Group] = {}
        self.changes = 0
        """Number of records that were appended, and of assignments that a group's member received."""
        self.clock_ahead_s = 0.0
        self._delays = streams["log: replication"]

    def create(self, topic: Topic) -> None:
        """Create a topic; each partition begins with its id."""
        for number in range(topic.partitions):
            partition = self.partitions[topic.name, number] = Partition()
            self.append((topic.name, number), vote_codec.encode(LogCreated(f"{topic.name}-{number}")), None)
            partition.visible = 1

    def append(self, place: tuple[str, int], value: bytes, key: bytes | None) -> int:
        """Append a record; it can be read after a moment. Return its offset."""
        partition = self.partitions[place]
        offset = len(partition.records)
        self.changes += 1
        at_ms = int((BEGIN_S + self.loop.now + self.clock_ahead_s) * 1000)
        partition.records.append(LogRecord(offset, at_ms, value, key))
        self.loop.deliver(self.loop.network, self._delays.uniform(0.0, 0.003), self._show, partition, offset + 1)
        return offset

    def lose(self, place: tuple[str, int], count: int) -> list[LogRecord]:
        """Lose the last records of a partition, but for its first one, on all replicas; return them."""
        partition = self.partitions[place]
        first = max(1, len(partition.records) - count)
        lost = partition.records[first:]
        del partition.records[first:]
        partition.visible = min(partition.visible, first)
        self.changes += 1
        return lost

    def _show(self, partition: Partition, end: int) -> None:
        partition.visible = max(partition.visible, min(end, len(partition.records)))
        for notify in list(partition.readers):
            notify()

    def group(self, name: str) -> "Group":
        return self.groups.setdefault(name, Group(self.loop, name))

    def owner(self, topic: Topic, partition: int) -> SimulatedProcess | None:
        """Return the process that reads a partition as a member of a group."""
        for group in self.groups.values():
            for member in group.members:
                if member.topic == topic and partition in member.positions:
                    return member.process
        return None


@dataclass(slots=True, eq=False)
class _Waiting:
    value: bytes
    key: bytes | None
    deadline: float
    reply: Callable[[Any], object] | None

    def answer(self, outcome: Appended | LogUnavailable) -> None:
        reply, self.reply = self.reply, None
        if reply is not None:
            reply(outcome)


@dataclass(slots=True, eq=False)
class _Queue:
    place: tuple[str, int]
    number: int
    """Of the partition in its log, which may have several topics."""
    records: list[_Waiting] = field(default_factory=list)
    in_flight: list[_Waiting] | None = None


class AppendFaults(NamedTuple):
    """Probability of each outcome of a batch, other than its acknowledgement."""

    refused: float = 0.0
    unknown_lost: float = 0.0
    unknown_appended: float = 0.0
    unknown_late: float = 0.0
    doubled: float = 0.0


class SimulatedWriter:
    """The writer of a process: has the methods of `LogWriter` that the services use."""

    def __init__(self, process: SimulatedProcess, world: "Deployment", place: Placement) -> None:
        self._world = world
        self._process = process
        self._brokers = world.brokers
        self._loop = world.loop
        self._place = place
        self._rng = world.streams[f"{process.name}: appends"]
        self._delays = world.streams[f"{process.name}: way to the log"]
        self._splits = world.streams[f"{process.name}: full batches"]
        self._deadline_s = world.settings.produce_deadline_ms / 1000
        self._queues: dict[tuple[str, int], _Queue] = {}

    async def start(self) -> None: ...
    async def stop(self, timeout_s: float = 0.0) -> None: ...
    async def check(self) -> None: ...

    async def append(
        self,
        topic: str,
        partition: int,
        value: bytes,
        key: bytes | None = None,
        *,
        deadline_s: float | None = None,
    ) -> Appended:
        [outcome] = await self._queue(topic, partition, [Record(value, key)], deadline_s)
        if isinstance(outcome, LogUnavailable):
            raise outcome
        return outcome

    def append_group(
        self, topic: str, partition: int, records: Sequence[Record]
    ) -> "asyncio.Future[list[Outcome]]":
        return self._queue(topic, partition, records, None)

    def _queue(
        self, topic: str, partition: int, records: Sequence[Record], deadline_s: float | None
    ) -> "asyncio.Future[list[Outcome]]":
        queue = self._queues.get((topic, partition))
        if queue is None:
            queue = self._queues[topic, partition] = _Queue(self._place(topic, partition), partition)
        deadline = self._loop.now + (deadline_s or self._deadline_s)
        group = RecordGroup(records, deadline, self._loop.create_future())
        is_idle = not queue.records
        queue.records += [
            _Waiting(record.value, record.key, deadline, partial(_decide, group, at))
            for at, record in enumerate(records)
        ]
        if is_idle:
            self._loop.call_soon(self._send, queue)
        return group.answer

    def _send(self, queue: _Queue) -> None:
        """Send what waits as one batch, unless one is in flight or there is no leader."""
        while queue.records and queue.records[0].deadline <= self._loop.now:
            queue.records.pop(0).answer(NotAppended("too late", retry_after_s=1))
        if queue.in_flight is not None or not queue.records:
            return
        leaderless_until = self._brokers.partitions[queue.place].leaderless_until
        if leaderless_until > self._loop.now:
            until = min(leaderless_until, queue.records[0].deadline)
            self._loop.call_at(until + 0.001, self._send, queue)
            return
        size = len(queue.records)
        if size > 1 and self._splits.random() < SPLIT:  # as a batch that is full
            size = self._splits.randrange(1, size)
        batch, queue.records = queue.records[:size], queue.records[size:]
        fault = self._fault()
        if fault == "refused":
            refusal = NotAppended(NO_ANSWER, retry_after_s=1)
            self._loop.call_later(self._delay(), _answer, batch, repeat(refusal))
            self._loop.call_soon(self._send, queue)
            return
        queue.in_flight = batch
        unknown = AppendUnknown("It is not yet known whether the record was written.", retry_after_s=1)
        self._loop.call_at(batch[0].deadline, self._end, queue, batch, repeat(unknown))
        if fault == "unknown_lost":
            return
        delay = self._rng.uniform(0.1, 12.0) if fault == "unknown_late" else self._delay()
        self._loop.call_soon(self._loop.deliver, self._loop.network, delay, self._arrive, queue, batch, fault)

    def _fault(self) -> str:
        drawn, faults = self._rng.random(), self._world.faults.appends
        for name, probability in zip(faults._fields, faults, strict=True):
            if drawn < probability:
                return name
            drawn -= probability
        return ""

    def _arrive(self, queue: _Queue, batch: list[_Waiting], fault: str) -> None:
        """Append at the leader, and acknowledge."""
        partition = self._brokers.partitions[queue.place]
        if partition.leaderless_until > self._loop.now:
            # in doubt: the former leader may have replicated it, and the producer sends it again
            if self._rng.random() < 0.3:
                return
            wait = partition.leaderless_until - self._loop.now + self._delay()
            self._loop.deliver(self._loop.network, wait, self._arrive, queue, batch, fault)
            return
        first = len(partition.records)
        self._world.moment("append", self._process)
        for waiting in 2 * batch if fault == "doubled" else batch:
            self._brokers.append(queue.place, waiting.value, waiting.key)
        if not fault or fault == "doubled":
            # replicated by then, so it can be read
            delay = 0.003 + self._delay()
            at = -len(batch) if fault else first  # the offset of a record that is there twice is not known
            appended = [Appended(queue.number, at + number, not fault) for number in range(len(batch))]
            self._loop.deliver(self._process, delay, self._end, queue, batch, appended)

    def _end(self, queue: _Queue, batch: list[_Waiting], outcomes: Iterable[Appended | LogUnavailable]) -> None:
        """Answer a batch, unless it is answered, and send the next one."""
        if queue.in_flight is batch:
            queue.in_flight = None
            _answer(batch, outcomes)
            self._send(queue)

    def _delay(self) -> float:
        return self._delays.uniform(0.0005, self._world.faults.slowest_s)


def _decide(group: RecordGroup, at: int, outcome: Outcome) -> None:
    group.decide(at, (outcome,))


def _answer(batch: list[_Waiting], outcomes: Iterable[Appended | LogUnavailable]) -> None:
    for waiting, outcome in zip(batch, outcomes, strict=False):
        waiting.answer(outcome)


class SimulatedReader:
    """The reader of a process: has the methods of `LogReader` that the services use."""

    def __init__(self, process: SimulatedProcess, world: "Deployment", place: Placement) -> None:
        self._world = world
        self._brokers = world.brokers
        self._place = place
        self._rng = world.streams[f"{process.name}: reads of the log"]

    async def close(self) -> None: ...

    async def extents(self, topic: str, partitions: Collection[int]) -> dict[int, Extent]:
        return {number: Extent(0, end) for number, end in (await self.end_offsets(topic, partitions)).items()}

    async def end_offsets(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        await self._way()
        found = {number: self._partition(topic, number).visible for number in partitions}
        await self._way()
        return found

    confirmed_ends = end_offsets

    async def log_ids(self, topic: str, partitions: Collection[int]) -> dict[int, str]:
        return {number: first.log_id for number, first in (await self.first_records(topic, partitions)).items()}

    async def first_records(self, topic: str, partitions: Collection[int]) -> dict[int, LogCreated]:
        await self._way()
        found = {}
        for number in partitions:
            first = vote_codec.decode(self._partition(topic, number).records[0].value)
            assert isinstance(first, LogCreated)
            found[number] = first
        return found

    async def record(self, topic: str, partition: int, offset: int, wait_s: float = 10.0) -> LogRecord:
        await self._way()
        records = self._partition(topic, partition).records
        if offset >= len(records):
            raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause="no such record")
        return records[offset]

    async def offsets_from(self, topic: str, partitions: Collection[int], time_ms: int) -> dict[int, int]:
        await self._way()
        found = {}
        for number in partitions:
            records = self._partition(topic, number).records
            later = (record.offset for record in records if record.timestamp_ms >= time_ms)
            found[number] = next(later, len(records))
        return found

    async def records(
        self, topic: str, ranges: Mapping[int, Extent], *, fetch_bytes: int = 0
    ) -> AsyncGenerator[tuple[int, Sequence[LogRecord]], None]:
        for number, extent in ranges.items():
            at = extent.beginning
            while at < extent.end:
                await self._way()
                end = min(extent.end, at + self._rng.randint(1, 40), self._partition(topic, number).visible)
                if end > at:
                    yield number, self._partition(topic, number).records[at:end]
                at = max(at, end)

    async def follow(
        self, topic: str, starts: Mapping[int, int]
    ) -> AsyncGenerator[tuple[int, Sequence[LogRecord]], None]:
        positions = dict(starts)
        while True:
            for number, at in positions.items():
                end = min(at + self._rng.randint(1, 40), self._partition(topic, number).visible)
                if end > at:
                    await self._way()
                    positions[number] = end
                    yield number, self._partition(topic, number).records[at:end]
            await asyncio.sleep(self._rng.uniform(0.01, 0.05))

    def _partition(self, topic: str, number: int) -> Partition:
        return self._brokers.partitions[self._place(topic, number)]

    async def _way(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.0003, 0.004))
        if self._rng.random() < self._world.faults.message_loss:
            raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause="no answer")


class FetchedRecord(NamedTuple):
    """Members of aiokafka's `ConsumerRecord` that the projector reads."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes
    headers: tuple[Any, ...] = ()


class Group:
    """A consumer group: distributes a topic's partitions among the members that respond, in changing orders."""

    def __init__(self, loop: VirtualLoop, name: str) -> None:
        self.name = name
        self._loop = loop
        self.members: list[SimulatedConsumer] = []
        self._expelled: list[SimulatedConsumer] = []
        self._is_due = False
        self._rebalances = 0

    def join(self, member: "SimulatedConsumer") -> None:
        self.members.append(member)
        self._rebalance_soon()

    def leave(self, member: "SimulatedConsumer") -> None:
        if member in self.members:
            self.members.remove(member)
            self._rebalance_soon()

    def silent(self, process: SimulatedProcess) -> None:
        """Note that a process was killed or frozen: its member is expelled after its session's timeout."""
        for member in self.members:
            if member.process is process:
                self._loop.deliver(self._loop.network, SESSION_S, self._expel, member)

    def back(self, process: SimulatedProcess) -> None:
        """Note that a process responds again: its member joins again if it was expelled."""
        for member in list(self._expelled):
            if member.process is process:
                self._expelled.remove(member)
                self.join(member)

    def _expel(self, member: "SimulatedConsumer") -> None:
        if member in self.members and (member.process.is_dead or member.process.is_frozen):
            if not member.process.is_dead:
                self._expelled.append(member)
            self.leave(member)

    def _rebalance_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.deliver(self._loop.network, REBALANCE_S, self._rebalance)

    def _rebalance(self) -> None:
        self._is_due = False
        self._rebalances += 1
        first = crc32(f"{self.name} {self._rebalances}".encode())
        for at, member in enumerate(self.members):
            its = [n for n in range(member.topic.partitions) if (n + first) % len(self.members) == at]
            self._loop.deliver(member.process, 0.003, member.rebalanced, its)


class SimulatedConsumer:
    """A group's member, in place of FastStream and aiokafka: feeds one `ConsumerSession`.

    Batches mix partitions; a record that was fetched before a seek may be delivered after it.
    """

    def __init__(self, session: Any, process: SimulatedProcess, brokers: Brokers, rng: Any) -> None:
        self.session = session
        self.process = process
        [self.topic] = session.membership.projection.topic.topics
        self.group = brokers.group(session.membership.group)
        self.client: SimulatedConsumer | None = None
        self._brokers = brokers
        self._rng = rng
        self.positions: dict[int, int] = {}
        self._paused: set[int] = set()
        self._news = asyncio.Event()
        self._polling: asyncio.Task[None] | None = None
        self._notify_delay = rng.choice([0.002, 0.01, 0.05])
        self._is_told = False

    async def start(self) -> None:
        await asyncio.sleep(0.005)
        self.client = self
        for number in range(self.topic.partitions):
            self._brokers.partitions[self.topic.name, number].readers.append(self._tell)
        self.group.join(self)
        self._polling = asyncio.get_running_loop().create_task(self._poll())

    async def stop(self) -> None:
        self.group.leave(self)
        for number in range(self.topic.partitions):
            readers = self._brokers.partitions[self.topic.name, number].readers
            if self._tell in readers:
                readers.remove(self._tell)
        if self._polling is not None:
            self._polling.cancel()

    def rebalanced(self, partitions: list[int]) -> None:
        if self._polling is None or self._polling.done():
            return
        tps = {TopicPartition(self.topic.name, number) for number in self.positions}
        self.positions.clear()
        self.session.on_partitions_revoked(tps)
        self.positions = dict.fromkeys(partitions, 0)
        self._brokers.changes += 1
        self._paused.clear()
        self.session.on_partitions_assigned({TopicPartition(self.topic.name, number) for number in partitions})
        self._news.set()

    # the methods of aiokafka's consumer

    def seek(self, tp: TopicPartition, offset: int) -> None:
        if tp.partition in self.positions:
            self.positions[tp.partition] = offset
            self._news.set()

    def pause(self, tp: TopicPartition) -> None:
        self._paused.add(tp.partition)

    def resume(self, tp: TopicPartition) -> None:
        self._paused.discard(tp.partition)
        self._news.set()

    async def commit(self, offsets: Any) -> None: ...

    async def getmany(self, *partitions: Any) -> dict[Any, Any]:
        return {}

    def _tell(self) -> None:
        if not self._is_told and not self.process.is_dead:
            self._is_told = True
            self._brokers.loop.deliver(self.process, self._notify_delay * self._rng.random(), self._told)

    def _told(self) -> None:
        self._is_told = False
        self._news.set()

    async def _poll(self) -> None:
        while True:
            batch = self._fetch()
            if batch:
                # a seek of meanwhile comes too late for these
                if self._rng.random() < 0.3:
                    await asyncio.sleep(self._rng.uniform(0, 0.02))
                await self.session.handle(tuple(batch))
            else:
                self._news.clear()
                await self._news.wait()

    def _fetch(self) -> list[FetchedRecord]:
        batch = []
        for number, position in self.positions.items():
            partition = self._brokers.partitions[self.topic.name, number]
            if number in self._paused or position >= partition.visible:
                continue
            if partition.unfetched_until > self._brokers.loop.now:
                self._brokers.loop.call_at(partition.unfetched_until, self._told)
                continue
            end = min(partition.visible, position + self._rng.randint(1, 50))
            for record in partition.records[position:end]:
                its = record.offset, record.timestamp_ms, record.key, record.value
                batch.append(FetchedRecord(self.topic.name, number, *its))
            self.positions[number] = end
        return batch
