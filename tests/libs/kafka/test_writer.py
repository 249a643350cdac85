"""LogWriter's outcomes with a real Kafka that works, freezes, dies and refuses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from aiokafka.errors import KafkaError

from libs.contracts.log_records import Appended
from libs.contracts.topics import Topic
from libs.kafka.partition_queues import Record
from libs.kafka.reader import Extent, LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.writer import LogWriter
from libs.local_stack.servers import Servers
from libs.tally.errors import AppendUnknown, NotAppended
from tests.support.clients.log_writers import open_writer
from tests.support.eventually import eventually
from tests.support.servers.frozen_process import stopped
from tests.support.servers.topics import alter_topic

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
"""For appends that must succeed, however busy the machine is."""


@dataclass
class Log:
    """A topic and a writer of it."""

    settings: KafkaSettings
    topic: Topic
    writer: LogWriter

    async def append(self, value: bytes, partition: int = 0, **options: Any) -> Appended:
        return await self.writer.append(self.topic.name, partition, value, **options)

    def start(self, value: bytes, partition: int = 0, **options: Any) -> "asyncio.Task[Appended]":
        return asyncio.create_task(self.append(value, partition, **options))

    async def is_appended(self, value: bytes) -> bool:
        try:
            await self.append(value, deadline_s=PATIENCE_S)
        except NotAppended:
            return False
        return True

    @property
    def in_flight(self) -> int:
        """Records of partition 0 that were sent and have no answer."""
        return sum(part.count for part in self.writer._queues[self.topic.name, 0].flight)

    async def values(self, partition: int = 0) -> list[bytes]:
        """The values of a partition, from offset 0."""
        async with LogReader(self.settings) as reader:
            end = (await reader.end_offsets(self.topic.name, [partition]))[partition]
            batches = [batch async for _, batch in reader.records(self.topic.name, {partition: Extent(0, end)})]
        return [record.value for batch in batches for record in batch]


@asynccontextmanager
async def open_log(settings: KafkaSettings, topic: Topic, **limits: int) -> AsyncIterator[Log]:
    async with open_writer(settings.model_copy(update=limits)) as writer:
        yield Log(settings, topic, writer)


@pytest.fixture
async def log(settings: KafkaSettings, topic: Topic) -> AsyncIterator[Log]:
    async with open_log(settings, topic) as log:
        yield log


async def outcomes(appends: list["asyncio.Task[Appended]"]) -> list[Appended | BaseException]:
    return await asyncio.gather(*appends, return_exceptions=True)


async def test_each_record_lies_where_its_answer_says(log: Log) -> None:
    answers = await asyncio.gather(*(log.append(b"%d" % n, n % 4, key=b"k") for n in range(4_000)))
    for partition in range(4):
        values = await log.values(partition)
        mine = [(n, answer) for n, answer in enumerate(answers) if answer.partition == partition]
        assert len(values) == len(mine) + 1
        assert all(values[answer.offset] == b"%d" % n and answer.exact for n, answer in mine)
        assert [answer.offset for _, answer in mine] == sorted(answer.offset for _, answer in mine)
    assert log.writer.held == 0


async def test_each_record_of_a_group_has_its_outcome(log: Log) -> None:
    """Also where the group needs several batches, and where a record is refused."""
    large = b"x" * (log.settings.produce_max_record_bytes + 1)
    records = [Record(b"%d" % n + b"y" * 4_000, b"k") for n in range(500)]
    records[7] = Record(large)
    answers = await log.writer.append_group(log.topic.name, 0, records)
    values = await log.values()
    refused = answers.pop(7)
    assert isinstance(refused, NotAppended)
    assert len(records) * 4_000 > 2 * log.settings.produce_max_batch_bytes
    for record, answer in zip(records[:7] + records[8:], answers, strict=True):
        assert isinstance(answer, Appended)
        assert values[answer.offset] == record.value
    assert [answer.offset for answer in answers] == [*range(1, 500)]  # type: ignore[union-attr]
    assert log.writer.held == 0


async def test_what_is_not_sent_of_a_group_is_refused_and_what_is_in_flight_is_unknown(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log.append(b"before")
    link = log.writer._producers.link
    assert link is not None

    async def hang(*_: Any, **__: Any) -> "asyncio.Future[Any]":
        return asyncio.get_running_loop().create_future()

    monkeypatch.setattr(link.producer, "send_batch", hang)
    monkeypatch.setattr(log.writer, "_deadline_s", 0.3)
    size = log.settings.produce_max_batch_bytes // 2
    answers = await log.writer.append_group(log.topic.name, 0, [Record(b"x" * size) for _ in range(4)])
    assert [type(answer) for answer in answers] == [AppendUnknown, NotAppended, NotAppended, NotAppended]


async def test_a_partition_that_cannot_be_sent_to_refuses_its_queue_and_not_what_is_in_flight(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records in flight may come into the log: nothing definite may be said of them."""
    await log.append(b"before")
    link, queue = log.writer._producers.link, log.writer._queues[log.topic.name, 0]
    assert link is not None
    acknowledgement: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def held(*args: Any, **options: Any) -> "asyncio.Future[Any]":
        return acknowledgement

    async def fails(name: str) -> set[int]:
        raise KafkaError("no metadata")

    monkeypatch.setattr(link.producer, "send_batch", held)
    flying = log.start(b"in flight")
    await eventually(lambda: queue.flight)
    queued = log.start(b"queued")
    await eventually(lambda: queue.groups)
    monkeypatch.setattr(link.producer, "partitions_for", fails)
    pace = next(iter(log.writer._paces.values()))
    await log.writer._send(queue, link, pace, pace.request, {})
    with pytest.raises(NotAppended):
        await queued
    assert not flying.done()
    acknowledgement.cancel()
    with pytest.raises(AppendUnknown):
        await flying


async def test_a_cancelled_caller_disturbs_no_other(log: Log) -> None:
    tasks = [log.start(b"%d" % n) for n in range(100)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    answers = await outcomes(tasks)
    values = await log.values()
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
    for n, answer in list(enumerate(answers))[1::2]:
        assert isinstance(answer, Appended)
        assert values[answer.offset] == b"%d" % n
    assert log.writer.held == 0


async def test_a_cancelled_acknowledgement_is_an_unknown_outcome_and_holds_nothing_back(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when what the producer waits with is cancelled: the batch may arrive all the same."""
    await log.append(b"before")
    link = log.writer._producers.link
    assert link is not None
    send_batch = link.producer.send_batch

    async def cancelled(*args: Any, **options: Any) -> "asyncio.Future[Any]":
        acknowledgement = await send_batch(*args, **options)
        acknowledgement.cancel()
        return acknowledgement

    monkeypatch.setattr(link.producer, "send_batch", cancelled)
    answers = await asyncio.wait_for(outcomes([log.start(b"%d" % n) for n in range(10)]), 60)
    assert all(isinstance(answer, AppendUnknown) for answer in answers)
    after = await log.append(b"after")
    values = await log.values()
    assert values[after.offset] == b"after"
    assert len(values) == len(set(values))
    assert log.writer.held == 0


async def test_what_is_too_large_or_has_no_partition_is_refused_for_certain(log: Log) -> None:
    with pytest.raises(NotAppended, match="too large"):
        await log.append(b"x" * 900_001)
    for name, partition in ((log.topic.name, 99), (f"{log.topic.name}-missing", 0)):
        with pytest.raises(NotAppended):
            await log.writer.append(name, partition, b"x")
    await log.append(b"x" * 900_000)
    assert len(await log.values()) == 2


async def test_an_offset_that_may_be_a_duplicates_is_not_called_exact(log: Log) -> None:
    """Kafka answers no append time where it keeps none, exactly as for a duplicate that it does not remember."""
    await alter_topic(log.settings, log.topic.name, {"message.timestamp.type": "CreateTime"})

    async def inexact() -> bool:
        return not (await log.append(b"x")).exact

    await eventually(inexact)


async def test_a_frozen_kafka_leaves_unknown_what_it_may_have_and_nothing_else(
    settings: KafkaSettings, topic: Topic, breakable: Servers
) -> None:
    """The producer gives its connection up and sends again: what was on its way arrives once all the same."""
    limits = {"produce_deadline_ms": 900, "produce_max_queued_records": 20, "kafka_request_timeout_ms": 400}
    async with open_log(settings, topic, **limits) as log:
        await eventually(lambda: log.is_appended(b"before"))
        with stopped(breakable.pids["kafka"]):
            flight = [log.start(b"flight %d" % n, deadline_s=2) for n in range(5)]
            await eventually(lambda: log.in_flight == 5)
            queued = [log.start(b"queued %d" % n, deadline_s=0.2) for n in range(15)]
            await asyncio.sleep(0)
            with pytest.raises(NotAppended, match="Too many"):
                await log.append(b"one too many", 1)
            assert all(isinstance(answer, NotAppended) for answer in await outcomes(queued))
            assert all(isinstance(answer, AppendUnknown) for answer in await outcomes(flight))
            assert log.writer.retired == 1
        await eventually(lambda: log.is_appended(b"after"))
        await eventually(lambda: log.writer.retired == 0)
        values = await log.values()
    assert values[1] == b"before"
    assert sorted(values[2:]) == sorted([b"after", *(b"flight %d" % n for n in range(5))])


async def test_one_hung_partition_does_not_hold_the_next_records(
    settings: KafkaSettings, topic: Topic, breakable: Servers
) -> None:
    """After a batch without an answer the partition goes on through another producer."""
    async with open_log(settings, topic, produce_deadline_ms=500) as log:
        await log.append(b"before", deadline_s=PATIENCE_S)
        with stopped(breakable.pids["kafka"]):
            with pytest.raises(AppendUnknown):
                await log.append(b"hung")
            waiting = log.start(b"next", deadline_s=PATIENCE_S)
        assert isinstance(await waiting, Appended)


async def test_after_a_refused_batch_another_producer_goes_on(log: Log) -> None:
    await log.append(b"before")
    await alter_topic(log.settings, log.topic.name, {"max.message.bytes": "1000"})
    other = log.start(b"x", partition=1)

    async def refused() -> bool:
        try:
            await log.append(b"x" * 5_000)
        except AppendUnknown as error:
            return "MessageSizeTooLarge" in str(error)
        return False  # the setting has not come to the broker yet

    await eventually(refused)
    assert isinstance(await other, Appended)
    for n in range(3):
        await log.append(b"after %d" % n)
    assert (await log.values())[-3:] == [b"after 0", b"after 1", b"after 2"]
    await eventually(lambda: log.writer.retired == 0)


async def test_a_producer_that_takes_nothing_on_any_more_is_replaced(log: Log) -> None:
    """As aiokafka leaves it when its sender ends between two batches; what it did not take is not in the log."""
    await log.append(b"before")
    link = log.writer._producers.link
    assert link is not None
    link.producer._message_accumulator.fail_all(KafkaError("the sender has ended"))
    with pytest.raises(NotAppended, match="the sender has ended"):
        await log.append(b"refused")
    await log.append(b"after")
    assert (await log.values())[1:] == [b"before", b"after"]


async def test_an_absent_kafka_is_waited_for_without_taking_records(
    settings: KafkaSettings, topic: Topic, breakable: Servers
) -> None:
    await breakable.kill("kafka")
    log = Log(settings, topic, LogWriter(settings))
    try:
        await log.writer.start()
        with pytest.raises(NotAppended):
            await log.append(b"while away", deadline_s=1)
        with pytest.raises(NotAppended, match="cannot be reached"):
            await log.append(b"while away")
        assert not log.writer.ready
    finally:
        await breakable.restart("kafka")
    await eventually(lambda: log.is_appended(b"back"))
    assert (await log.values())[1:] == [b"back"]
    await log.writer.stop()


async def test_a_killed_kafka_loses_no_acknowledged_record_and_doubles_none(log: Log, breakable: Servers) -> None:
    answers: dict[bytes, Appended] = {}
    stop = asyncio.Event()

    async def caller(name: int) -> None:
        n = 0
        while not stop.is_set():
            value = b"%d-%d" % (name, n)
            try:
                answers[value] = await log.append(value, deadline_s=2)
            except (NotAppended, AppendUnknown):
                await asyncio.sleep(0.01)
            n += 1

    callers = [asyncio.create_task(caller(name)) for name in range(10)]
    await eventually(lambda: len(answers) > 100)
    await breakable.kill("kafka")
    await breakable.restart("kafka")
    before = len(answers)
    await eventually(lambda: len(answers) > before + 100)
    stop.set()
    await asyncio.gather(*callers)
    values = await log.values()
    assert len(values) == len(set(values))
    assert all(values[answer.offset] == value for value, answer in answers.items() if answer.exact)
    assert answers.keys() <= set(values)


async def test_stopping_delivers_what_was_taken_on(log: Log) -> None:
    tasks = [log.start(b"%d" % n) for n in range(1_000)]
    await asyncio.sleep(0)
    await log.writer.stop()
    assert all(isinstance(answer, Appended) for answer in await outcomes(tasks))
    with pytest.raises(NotAppended, match="stopping"):
        await log.append(b"late")


async def test_stopping_answers_everybody_even_when_kafka_is_frozen(log: Log, breakable: Servers) -> None:
    await log.append(b"before")
    with stopped(breakable.pids["kafka"]):
        flight = log.start(b"flight")
        await eventually(lambda: log.in_flight == 1)
        queued = log.start(b"queued")
        await asyncio.sleep(0)
        await log.writer.stop(timeout_s=0.3)
        first, second = await outcomes([flight, queued])
    assert isinstance(first, AppendUnknown)
    assert isinstance(second, NotAppended)
