"""Concurrent reads of single records of the log."""

import asyncio

import pytest

from libs.contracts.topics import Topic
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.tally.errors import LogUnavailable
from tests.support.clients.log_writers import open_writer


async def test_many_records_are_read_at_once_and_each_is_the_one_asked_for(
    settings: KafkaSettings, topic: Topic, reader: LogReader
) -> None:
    wanted = await written(settings, topic, 400)

    async def read(partition: int, offset: int, value: bytes) -> None:
        record = await reader.record(topic.name, partition, offset)
        assert (record.offset, record.value) == (offset, value)

    await asyncio.gather(*(read(*each) for each in reversed(wanted)))
    await asyncio.gather(*(read(*each) for each in wanted[::7]))


async def test_a_partition_that_does_not_answer_holds_up_its_own_readers_alone(
    settings: KafkaSettings, topic: Topic, reader: LogReader
) -> None:
    """Simulated by a record that has not come yet: its broker is waited for, and is the others' broker, too."""
    wanted = await written(settings, topic, 12)
    end = (await reader.end_offsets(topic.name, [0]))[0]
    silent = asyncio.ensure_future(reader.record(topic.name, 0, end, wait_s=30))
    for partition, offset, value in wanted:
        if partition:
            assert (await reader.record(topic.name, partition, offset)).value == value
    assert not silent.done()
    with pytest.raises(LogUnavailable):
        await reader.record(topic.name, 0, 1, wait_s=0.1)
    await written(settings, topic, 1)
    assert (await silent).value == b"0"
    assert (await reader.record(topic.name, 0, 1)).offset == 1


async def test_a_record_that_does_not_come_in_time_is_given_up_and_harms_no_later_read(
    settings: KafkaSettings, topic: Topic, reader: LogReader
) -> None:
    [(partition, offset, value)] = await written(settings, topic, 1)
    for missing in offset + 1, offset + 1_000:
        with pytest.raises(LogUnavailable):
            await reader.record(topic.name, partition, missing, wait_s=0.2)
        assert (await reader.record(topic.name, partition, offset)).value == value


async def test_a_read_whose_consumer_another_one_replaces_is_answered(
    settings: KafkaSettings, topic: Topic, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    [(partition, offset, value)] = await written(settings, topic, 1)
    monkeypatch.setattr(reader._single, "_silence_s", 0.0)
    waiting = asyncio.ensure_future(reader.record(topic.name, partition + 1, 1, wait_s=30))
    with pytest.raises(LogUnavailable):
        await reader.record(topic.name, partition, offset + 1, wait_s=0.5)
    with pytest.raises(LogUnavailable, match="The log cannot be reached"):
        await waiting
    assert (await reader.record(topic.name, partition, offset)).value == value


async def written(settings: KafkaSettings, topic: Topic, count: int) -> list[tuple[int, int, bytes]]:
    """(partition, offset, value) of records appended now, over all partitions in turn."""
    values = [b"%d" % number for number in range(count)]
    async with open_writer(settings) as writer:
        appends = [writer.append(topic.name, number % 4, value) for number, value in enumerate(values)]
        places = await asyncio.gather(*appends)
    return [(place.partition, place.offset, value) for place, value in zip(places, values, strict=True)]
