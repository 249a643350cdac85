"""Records of retired votes topics in the object store: byte for byte, in segments, with an index of each topic.

A segment is compressed NDJSON, as in an export. The index is written after all segments, so its existence means
that the topic is complete there.
"""

import asyncio
import hashlib
import time
import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from libs.contracts.log_records import LogRecord
from libs.contracts.ndjson_codec import from_line, to_line
from libs.contracts.topics import Topic
from libs.contracts.votes_log import VotesLog
from libs.kafka.errors import NO_ANSWER, LogChanged
from libs.kafka.reader import Extent, LogReader
from libs.storage.object_store import StorageUnavailable, Store
from libs.tally.errors import LogUnavailable

FOLDER: Final = "votes-archive"
SEGMENT_BYTES: Final = 4 << 20
"""Size of a segment before its compression: some 8,000 votes, which are read in 20 ms."""
ASK_S: Final = 2.0
"""Seconds between questions for the index of a topic that is being retired."""
KEPT_SEGMENTS: Final = 4
"""Segments that a reader keeps: single records are read from the same ones."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Segment(_Model):
    """The records in [start, end), the last appended at `time_ms`; `sha256` is that of the compressed bytes."""

    start: int
    end: int
    time_ms: int
    sha256: str


class Index(_Model):
    """The segments of each partition of a topic, ascending; none overlap and none are missing."""

    version: Literal[1] = 1
    topic: str
    partitions: dict[int, tuple[Segment, ...]]

    def end(self, partition: int) -> int:
        segments = self.partitions[partition]
        return segments[-1].end if segments else 0

    @property
    def ends(self) -> dict[int, int]:
        """Return each partition's end."""
        return {partition: self.end(partition) for partition in self.partitions}

    @property
    def records(self) -> int:
        return sum(self.ends.values())


class VotesArchive:
    """Reads the retired topics of `log`. Implements `Archive` of the log's reader.

    Raises `LogUnavailable`, and `LogChanged` if a segment is missing or was changed.
    """

    def __init__(self, open_store: Callable[[], Store], log: VotesLog) -> None:
        """`open_store` is called once records are read from it."""
        self._open_store = open_store
        self._log = log
        self._indexes: dict[str, Index] = {}
        self._asked: dict[str, float] = {}
        self._segments: OrderedDict[str, Sequence[LogRecord]] = OrderedDict()

    async def holds(self, log: str, partition: int) -> bool:
        if log != self._log.name or not self._log.retired:
            return False
        topic = self._log.topic_at(partition)
        return self._log.is_retired(topic.first) and await self.index(topic) is not None

    async def index(self, topic: Topic) -> Index | None:
        """Return a topic's index, or None if it was not archived yet."""
        if topic.name not in self._indexes:
            now = time.monotonic()
            if now - self._asked.get(topic.name, float("-inf")) < ASK_S:
                return None
            self._asked[topic.name] = now
            found = await self._get(_index_name(topic.name))
            if found is None:
                return None
            try:
                self._indexes[topic.name] = Index.model_validate_json(found)
            except ValidationError as error:
                raise LogChanged(f"{_index_name(topic.name)} is damaged", topic=topic.name) from error
        return self._indexes[topic.name]

    def use(self, index: Index) -> None:
        """Read by `index`, in place of the stored one."""
        self._indexes[index.topic] = index

    async def end(self, partition: int) -> int:
        return (await self._of(partition)).end(partition)

    async def offset_from(self, partition: int, time_ms: int) -> int:
        """Return the offset of the first record appended at `time_ms` or later, otherwise the end."""
        index = await self._of(partition)
        for segment in index.partitions[partition]:
            if segment.time_ms >= time_ms:
                records = await self._read(partition, segment)
                return next(record.offset for record in records if record.timestamp_ms >= time_ms)
        return index.end(partition)

    async def records(self, partition: int, extent: Extent) -> AsyncGenerator[Sequence[LogRecord], None]:
        """Yield the records of a range, ascending."""
        for segment in (await self._of(partition)).partitions[partition]:
            if segment.start < extent.end and extent.beginning < segment.end:
                records = await self._read(partition, segment)
                yield [one for one in records if extent.beginning <= one.offset < extent.end]

    async def record(self, partition: int, offset: int) -> LogRecord:
        """Return the record at `offset`, which must be in the log."""
        segments = (await self._of(partition)).partitions[partition]
        segment = segments[bisect_right(segments, offset, key=lambda each: each.start) - 1]
        name = _segment_name(self._log.topic_at(partition).name, partition, segment.start)
        if name not in self._segments:
            self._segments[name] = await self._read(partition, segment)
            if len(self._segments) > KEPT_SEGMENTS:
                self._segments.popitem(last=False)
        self._segments.move_to_end(name)
        return self._segments[name][offset - segment.start]

    async def _of(self, partition: int) -> Index:
        topic = self._log.topic_at(partition)
        index = await self.index(topic)
        if index is None:
            raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause=f"{topic.name} is not in the archive")
        return index

    async def _read(self, partition: int, segment: Segment) -> Sequence[LogRecord]:
        topic = self._log.topic_at(partition).name
        name = _segment_name(topic, partition, segment.start)
        packed = await self._get(name)
        if packed is None or hashlib.sha256(packed).hexdigest() != segment.sha256:
            what = "is missing" if packed is None else "was changed"
            raise LogChanged(f"{name} {what}: it holds records of the retired topic {topic}", topic=topic)
        return await asyncio.to_thread(_unpacked, packed)

    async def _get(self, name: str) -> bytes | None:
        try:
            return await self._open_store().get(name)
        except StorageUnavailable as error:
            raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause=error) from error


async def write_segments(
    store: Store, reader: LogReader, log: VotesLog, topic: Topic, advance: Callable[[int], None]
) -> Index:
    """Copy a topic's records up to its current ends; repeatable. `advance` receives numbers of records.

    Raises `LogUnavailable`, `LogChanged` and `StorageUnavailable`.
    """
    partitions = {}
    for partition, end in (await reader.end_offsets(log.name, topic.numbers)).items():
        segments: list[Segment] = []
        lines: list[bytes] = []
        size = start = last_ms = 0
        async with aclosing(reader.records(log.name, {partition: Extent(0, end)})) as batches:
            async for _, records in batches:
                for record in records:
                    lines.append(to_line("votes", partition, record))
                    size += len(lines[-1])
                    last_ms = max(last_ms, record.timestamp_ms)
                    if size >= SEGMENT_BYTES or record.offset + 1 == end:
                        segments.append(
                            await _put(store, topic, partition, start, record.offset + 1, last_ms, lines)
                        )
                        lines, size, start = [], 0, record.offset + 1
                advance(len(records))
        partitions[partition] = tuple(segments)
    return Index(topic=topic.name, partitions=partitions)


async def write_index(store: Store, index: Index) -> None:
    """Complete the archive of a topic, and wait until all read its records there. Raises `StorageUnavailable`."""
    await store.replace(_index_name(index.topic), index.model_dump_json().encode())
    await asyncio.sleep(ASK_S)


async def _put(
    store: Store, topic: Topic, partition: int, start: int, end: int, last_ms: int, lines: Sequence[bytes]
) -> Segment:
    packed = await asyncio.to_thread(_packed, lines)
    await store.replace(_segment_name(topic.name, partition, start), packed)
    return Segment(start=start, end=end, time_ms=last_ms, sha256=hashlib.sha256(packed).hexdigest())


def _packed(lines: Sequence[bytes]) -> bytes:
    return zlib.compress(b"".join(lines))


def _unpacked(packed: bytes) -> Sequence[LogRecord]:
    return [from_line(line) for line in zlib.decompress(packed).splitlines(keepends=True)]


def _index_name(topic: str) -> str:
    return f"{FOLDER}/{topic}/index.json"


def _segment_name(topic: str, partition: int, start: int) -> str:
    return f"{FOLDER}/{topic}/{partition}/{start:020}.ndjson.zlib"
