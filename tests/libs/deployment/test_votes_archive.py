"""Records of a retired topic: the same from the object store as from Kafka."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise

import pytest

from libs.contracts.log_records import LogRecord
from libs.contracts.votes_log import VotesLog
from libs.deployment import votes_archive
from libs.deployment.votes_archive import FOLDER, VotesArchive, write_index, write_segments
from libs.kafka.errors import LogChanged
from libs.kafka.reader import Extent, LogReader
from libs.kafka.topics import delete_topic
from libs.kafka.writer import LogWriter
from tests.libs.deployment.conftest import Place

VALUES = [
    b'{"type": "unheard", "n": 1.50}',
    b"\xff\xfe",
    b"",
    b'{"two":\n"lines"}',
    b'{"a": "' + b"x" * 300 + b'"}',
]


@pytest.fixture
async def log(place: Place, monkeypatch: pytest.MonkeyPatch) -> VotesLog:
    """A log with records in its first partition, whose archive has several segments."""
    monkeypatch.setattr(votes_archive, "SEGMENT_BYTES", 400)
    monkeypatch.setattr(votes_archive, "ASK_S", 0.0)
    await place.create()
    writer = LogWriter(place.settings)
    await writer.start()
    for number, value in enumerate(VALUES * 3):
        await writer.append(place.votes.name, 0, value, b"voter" if number % 2 else None)
    await writer.stop()
    return VotesLog(place.namespace, place.partitions)


async def archived(place: Place, log: VotesLog) -> None:
    async with LogReader(place.settings, place=log.place) as reader:
        index = await write_segments(place.store, reader, log, log.topic_from(0), lambda _: None)
    assert len(index.partitions[0]) > 3
    await write_index(place.store, index)


@asynccontextmanager
async def reading(place: Place, log: VotesLog) -> AsyncIterator[LogReader]:
    """A reader as each process has one."""
    archive = VotesArchive(lambda: place.store, log)
    async with LogReader(place.settings, place=log.place, archive=archive) as reader:
        yield reader


async def records_in(reader: LogReader, log: VotesLog, partition: int, extent: Extent) -> list[LogRecord]:
    async with aclosing(reader.records(log.name, {partition: extent})) as batches:
        return [record async for _, records in batches for record in records]


async def all_reads(reader: LogReader, log: VotesLog) -> list[object]:
    """The answers of all methods for the partitions of the first topic."""
    numbers = log.topic_from(0).numbers
    extents = await reader.extents(log.name, numbers)
    records = [record for each in numbers for record in await records_in(reader, log, each, extents[each])]
    times = sorted({record.timestamp_ms for record in records})
    return [
        extents,
        await reader.end_offsets(log.name, numbers),
        await reader.first_records(log.name, numbers),
        records,
        *[await records_in(reader, log, 0, Extent(*span)) for span in pairwise((0, 1, 5, 6, 11, extents[0].end))],
        *[await reader.record(log.name, 0, offset) for offset in range(extents[0].end)],
        *[await reader.offsets_from(log.name, numbers, time) for time in (0, *times, times[-1] + 1)],
    ]


async def test_every_read_of_the_archive_equals_the_one_of_the_topic_before(place: Place, log: VotesLog) -> None:
    async with reading(place, log) as reader:
        before = await all_reads(reader, log)
    await archived(place, log)
    await delete_topic(place.settings, log.name)
    await delete_topic(place.settings, log.name)
    log.retire([log.topic_from(0)])
    async with reading(place, log) as reader:
        assert await all_reads(reader, log) == before


async def test_a_topic_that_is_not_archived_yet_is_read_from_kafka(place: Place, log: VotesLog) -> None:
    log.retire([log.topic_from(0)])
    async with reading(place, log) as reader:
        assert (await reader.end_offsets(log.name, [0]))[0] == len(VALUES) * 3 + 1


@pytest.mark.parametrize("change", ["changed", "missing"])
async def test_a_damaged_segment_is_not_read(place: Place, log: VotesLog, change: str) -> None:
    await archived(place, log)
    log.retire([log.topic_from(0)])
    segment = next(name for name in await place.store.names(f"{FOLDER}/{log.name}/0") if "0" * 20 not in name)
    if change == "changed":
        await place.store.replace(segment, b"other")
    else:
        await place.store.delete(segment)
    async with reading(place, log) as reader:
        with pytest.raises(LogChanged, match=change):
            await records_in(reader, log, 0, Extent(0, len(VALUES) * 3 + 1))
