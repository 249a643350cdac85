"""LogWriter's outcomes with a real Kafka that works, freezes, dies and refuses."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from aiokafka.errors import KafkaError

from libs.contracts.log_records import Appended
from libs.contracts.topics import Topic
from libs.kafka.reader import Extent, LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.writer import LogWriter
from libs.local_stack.servers import Servers
from libs.tally.errors import AppendUnknown, LogUnavailable, NotAppended
from tests.support.eventually import eventually
from tests.support.frozen_process import stopped
from tests.support.topics import alter_topic

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
"""For appends that must succeed, however busy the machine is."""


@pytest.fixture
async def writer(settings: KafkaSettings) -> AsyncIterator[LogWriter]:
    writer = LogWriter(settings)
    await writer.start()
    yield writer
    await writer.stop()


async def in_log(settings: KafkaSettings, topic: Topic, partition: int = 0) -> list[bytes]:
    """The values of a partition, from offset 0."""
    async with LogReader(settings) as reader:
        end = (await reader.end_offsets(topic.name, [partition]))[partition]
        batches = [batch async for _, batch in reader.records(topic.name, {partition: Extent(0, end)})]
    return [record.value for batch in batches for record in batch]


async def outcomes(appends: list["asyncio.Task[Appended]"]) -> list[Appended | BaseException]:
    return await asyncio.gather(*appends, return_exceptions=True)


async def test_each_record_lies_where_its_answer_says(
    settings: KafkaSettings, topic: Topic, writer: LogWriter
) -> None:
    answers = await asyncio.gather(*(writer.append(topic.name, n % 4, b"%d" % n, key=b"k") for n in range(4_000)))
    for partition in range(4):
        values = await in_log(settings, topic, partition)
        mine = [(n, answer) for n, answer in enumerate(answers) if answer.partition == partition]
        assert len(values) == len(mine) + 1
        assert all(values[answer.offset] == b"%d" % n and answer.exact for n, answer in mine)
        assert [answer.offset for _, answer in mine] == sorted(answer.offset for _, answer in mine)
    assert writer.held == 0


async def test_callbacks_are_called_once_each_with_the_outcome(
    settings: KafkaSettings, topic: Topic, writer: LogWriter
) -> None:
    answers: list[tuple[int, Appended | LogUnavailable]] = []

    def keep(n: int, answer: Appended | LogUnavailable) -> None:
        answers.append((n, answer))

    large = b"x" * (settings.produce_max_record_bytes + 1)
    for n in range(500):
        value = large if n == 7 else b"%d" % n
        writer.append_then(topic.name, 0, value, b"k", partial(keep, n))
    assert answers == []  # a refusal is no call back within the call
    await eventually(lambda: len(answers) == 500)
    values = await in_log(settings, topic)
    for n, answer in answers:
        if n == 7:
            assert isinstance(answer, NotAppended)
        else:
            assert isinstance(answer, Appended)
            assert values[answer.offset] == b"%d" % n
    assert sorted(n for n, _ in answers) == list(range(500))


async def test_a_partition_that_cannot_be_sent_to_refuses_its_queue_and_not_what_is_in_flight(
    topic: Topic, writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records in flight may come into the log: nothing definite may be said of them."""
    await writer.append(topic.name, 0, b"before")
    link, queue = writer._producers.link, writer._queues[topic.name, 0]
    assert link is not None
    acknowledgement: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def held(*args: Any, **options: Any) -> "asyncio.Future[Any]":
        return acknowledgement

    async def fails(name: str) -> set[int]:
        raise KafkaError("no metadata")

    monkeypatch.setattr(link.producer, "send_batch", held)
    flying = asyncio.create_task(writer.append(topic.name, 0, b"in flight"))
    await eventually(lambda: queue.flight)
    queued = asyncio.create_task(writer.append(topic.name, 0, b"queued"))
    await eventually(lambda: queue.records)
    monkeypatch.setattr(link.producer, "partitions_for", fails)
    pace = next(iter(writer._paces.values()))
    await writer._send(queue, link, pace, pace.request, {})
    with pytest.raises(NotAppended):
        await queued
    assert not flying.done()
    acknowledgement.cancel()
    with pytest.raises(AppendUnknown):
        await flying


async def test_a_cancelled_caller_disturbs_no_other(
    settings: KafkaSettings, topic: Topic, writer: LogWriter
) -> None:
    tasks = [asyncio.create_task(writer.append(topic.name, 0, b"%d" % n)) for n in range(100)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    answers = await outcomes(tasks)
    values = await in_log(settings, topic)
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
    for n, answer in list(enumerate(answers))[1::2]:
        assert isinstance(answer, Appended)
        assert values[answer.offset] == b"%d" % n
    assert writer.held == 0


async def test_a_cancelled_acknowledgement_is_an_unknown_outcome_and_holds_nothing_back(
    settings: KafkaSettings, topic: Topic, writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when what the producer waits with is cancelled: the batch may arrive all the same."""
    await writer.append(topic.name, 0, b"before")
    link = writer._producers.link
    assert link is not None
    send_batch = link.producer.send_batch

    async def cancelled(*args: Any, **options: Any) -> "asyncio.Future[Any]":
        acknowledgement = await send_batch(*args, **options)
        acknowledgement.cancel()
        return acknowledgement

    monkeypatch.setattr(link.producer, "send_batch", cancelled)
    answers = await asyncio.wait_for(outcomes([start(writer, topic, b"%d" % n) for n in range(10)]), 60)
    assert all(isinstance(answer, AppendUnknown) for answer in answers)
    after = await writer.append(topic.name, 0, b"after")
    values = await in_log(settings, topic)
    assert values[after.offset] == b"after"
    assert len(values) == len(set(values))
    assert writer.held == 0


async def test_what_is_too_large_is_refused_for_certain(
    settings: KafkaSettings, topic: Topic, writer: LogWriter
) -> None:
    with pytest.raises(NotAppended, match="too large"):
        await writer.append(topic.name, 0, b"x" * 900_001)
    await writer.append(topic.name, 0, b"x" * 900_000)
    assert len(await in_log(settings, topic)) == 2


async def test_a_partition_that_does_not_exist_is_a_definite_failure(topic: Topic, writer: LogWriter) -> None:
    with pytest.raises(NotAppended):
        await writer.append(topic.name, 99, b"x")
    with pytest.raises(NotAppended):
        await writer.append(topic.name + "-missing", 0, b"x")
    assert isinstance(await writer.append(topic.name, 0, b"x"), Appended)


async def test_an_offset_that_may_be_a_duplicates_is_not_called_exact(
    settings: KafkaSettings, topic: Topic, writer: LogWriter
) -> None:
    """Kafka answers no append time where it keeps none, exactly as for a duplicate that it does not remember."""
    await alter_topic(settings, topic.name, {"message.timestamp.type": "CreateTime"})

    async def inexact() -> bool:
        return not (await writer.append(topic.name, 0, b"x")).exact

    await eventually(inexact)


def in_flight(writer: LogWriter, topic: Topic) -> int:
    """Return the number of records of partition 0 that were sent and have no answer."""
    return len(writer._queues[topic.name, 0].flight)


async def test_a_frozen_kafka_leaves_unknown_what_it_may_have_and_nothing_else(
    settings: KafkaSettings, topic: Topic, breakable: Servers
) -> None:
    """The producer gives its connection up and sends again: what was on its way arrives once all the same."""
    limits = {"produce_deadline_ms": 900, "produce_max_queued_records": 20, "kafka_request_timeout_ms": 400}
    writer = LogWriter(settings.model_copy(update=limits))
    await writer.start()
    await eventually(lambda: appended(writer, topic, b"before"))
    with stopped(breakable.pids["kafka"]):
        flight = [start(writer, topic, b"flight %d" % n, deadline_s=2) for n in range(5)]
        await eventually(lambda: in_flight(writer, topic) == 5)
        queued = [start(writer, topic, b"queued %d" % n, deadline_s=0.2) for n in range(15)]
        await asyncio.sleep(0)
        with pytest.raises(NotAppended, match="Too many"):
            await writer.append(topic.name, 1, b"one too many")
        assert all(isinstance(answer, NotAppended) for answer in await outcomes(queued))
        assert all(isinstance(answer, AppendUnknown) for answer in await outcomes(flight))
        assert writer.retired == 1
    await eventually(lambda: appended(writer, topic, b"after"))
    await eventually(lambda: writer.retired == 0)
    values = await in_log(settings, topic)
    assert values[1] == b"before"
    assert sorted(values[2:]) == sorted([b"after", *(b"flight %d" % n for n in range(5))])
    await writer.stop()


async def test_one_hung_partition_does_not_hold_the_next_records(
    settings: KafkaSettings, topic: Topic, breakable: Servers
) -> None:
    """After a batch without an answer the partition goes on through another producer."""
    writer = LogWriter(settings.model_copy(update={"produce_deadline_ms": 500}))
    await writer.start()
    await writer.append(topic.name, 0, b"before", deadline_s=PATIENCE_S)
    with stopped(breakable.pids["kafka"]):
        with pytest.raises(AppendUnknown):
            await writer.append(topic.name, 0, b"hung")
        waiting = start(writer, topic, b"next", deadline_s=PATIENCE_S)
    assert isinstance(await waiting, Appended)
    await writer.stop()


async def test_after_a_refused_batch_another_producer_goes_on(
    settings: KafkaSettings, topic: Topic, writer: LogWriter
) -> None:
    await writer.append(topic.name, 0, b"before")
    await alter_topic(settings, topic.name, {"max.message.bytes": "1000"})
    other = start(writer, topic, b"x", partition=1)

    async def refused() -> bool:
        try:
            await writer.append(topic.name, 0, b"x" * 5_000)
        except AppendUnknown as error:
            return "MessageSizeTooLarge" in str(error)
        return False  # the setting has not come to the broker yet

    await eventually(refused)
    assert isinstance(await other, Appended)
    for n in range(3):
        await writer.append(topic.name, 0, b"after %d" % n)
    assert (await in_log(settings, topic))[-3:] == [b"after 0", b"after 1", b"after 2"]
    await eventually(lambda: writer.retired == 0)


async def test_a_producer_that_takes_nothing_on_any_more_is_replaced(
    settings: KafkaSettings, topic: Topic, writer: LogWriter
) -> None:
    """As aiokafka leaves it when its sender ends between two batches; what it did not take is not in the log."""
    await writer.append(topic.name, 0, b"before")
    link = writer._producers.link
    assert link is not None
    link.producer._message_accumulator.fail_all(KafkaError("the sender has ended"))
    with pytest.raises(NotAppended, match="the sender has ended"):
        await writer.append(topic.name, 0, b"refused")
    await writer.append(topic.name, 0, b"after")
    assert (await in_log(settings, topic))[1:] == [b"before", b"after"]


async def test_an_absent_kafka_is_waited_for_without_taking_records(
    settings: KafkaSettings, topic: Topic, breakable: Servers
) -> None:
    await breakable.kill("kafka")
    writer = LogWriter(settings)
    try:
        await writer.start()
        with pytest.raises(NotAppended):
            await writer.append(topic.name, 0, b"while away", deadline_s=1)
        with pytest.raises(NotAppended, match="cannot be reached"):
            await writer.append(topic.name, 0, b"while away")
        assert not writer.ready
    finally:
        await breakable.restart("kafka")
    await eventually(lambda: appended(writer, topic, b"back"))
    assert (await in_log(settings, topic))[1:] == [b"back"]
    await writer.stop()


async def test_a_killed_kafka_loses_no_acknowledged_record_and_doubles_none(
    settings: KafkaSettings, topic: Topic, breakable: Servers
) -> None:
    writer = LogWriter(settings)
    await writer.start()
    answers: dict[bytes, Appended] = {}
    stop = asyncio.Event()

    async def caller(name: int) -> None:
        n = 0
        while not stop.is_set():
            value = b"%d-%d" % (name, n)
            try:
                answers[value] = await writer.append(topic.name, 0, value, deadline_s=2)
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
    await writer.stop()
    values = await in_log(settings, topic)
    assert len(values) == len(set(values))
    assert all(values[answer.offset] == value for value, answer in answers.items() if answer.exact)
    assert answers.keys() <= set(values)


async def test_stopping_delivers_what_was_taken_on(settings: KafkaSettings, topic: Topic) -> None:
    writer = LogWriter(settings)
    await writer.start()
    tasks = [start(writer, topic, b"%d" % n) for n in range(1_000)]
    await asyncio.sleep(0)
    await writer.stop()
    assert all(isinstance(answer, Appended) for answer in await outcomes(tasks))
    with pytest.raises(NotAppended, match="stopping"):
        await writer.append(topic.name, 0, b"late")


async def test_stopping_answers_everybody_even_when_kafka_is_frozen(
    settings: KafkaSettings, topic: Topic, breakable: Servers
) -> None:
    writer = LogWriter(settings)
    await writer.start()
    await writer.append(topic.name, 0, b"before")
    with stopped(breakable.pids["kafka"]):
        flight = start(writer, topic, b"flight")
        await eventually(lambda: in_flight(writer, topic) == 1)
        queued = start(writer, topic, b"queued")
        await asyncio.sleep(0)
        await writer.stop(timeout_s=0.3)
        first, second = await outcomes([flight, queued])
    assert isinstance(first, AppendUnknown)
    assert isinstance(second, NotAppended)


def start(
    writer: LogWriter, topic: Topic, value: bytes, partition: int = 0, deadline_s: float | None = None
) -> "asyncio.Task[Appended]":
    return asyncio.create_task(writer.append(topic.name, partition, value, deadline_s=deadline_s))


async def appended(writer: LogWriter, topic: Topic, value: bytes) -> bool:
    try:
        await writer.append(topic.name, 0, value, deadline_s=PATIENCE_S)
    except NotAppended:
        return False
    return True
