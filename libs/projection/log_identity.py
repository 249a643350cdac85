"""Start position of a fold, and the check that the log is the one that the view was folded from.

Read the view's position first, and the log's identity after it: others append and fold in between, and a view is
never ahead of a log that is read later.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from libs.concurrency.tasks import SingleFlight
from libs.contracts.log_records import Position
from libs.contracts.topics import Log
from libs.kafka.errors import LogChanged, LogShortened
from libs.kafka.reader import Extent, LogReader
from libs.tally.errors import LogUnavailable
from libs.views.generations.generations import Witness


class LogIdentity(NamedTuple):
    """Id and extent of a partition's log."""

    log_id: str
    extent: Extent


class LogIdentities:
    """Reads the identities of all partitions of a topic; callers share a request that starts after their call."""

    def __init__(self, reader: LogReader, topic: Log) -> None:
        self._reader = reader
        self._topic = topic
        self._requests = SingleFlight(self._read)

    async def of(self, partition: int) -> LogIdentity:
        """Return the current identity. Raises `LogUnavailable` (also if it is empty) and `LogChanged`."""
        return (await self.of_all([partition]))[partition]

    async def of_all(self, partitions: Iterable[int]) -> dict[int, LogIdentity]:
        """Return several identities with one request. Raises as `of`."""
        return demand(self._topic, await self._requests.next(), partitions)

    async def _read(self) -> dict[int, LogIdentity]:
        return await read_identities(self._reader, self._topic, self._topic.numbers)


async def read_identities(reader: LogReader, topic: Log, partitions: Collection[int]) -> dict[int, LogIdentity]:
    """Return the current identities of those partitions that are not empty. Raises as `LogIdentities.of`.

    Reads ids first: an end read afterwards cannot be older than the log that the id was read from.
    """
    ids = await reader.log_ids(topic.name, partitions)
    extents = await reader.extents(topic.name, partitions)
    return {partition: LogIdentity(log_id, extents[partition]) for partition, log_id in ids.items()}


def demand(topic: Log, identities: Mapping[int, LogIdentity], partitions: Iterable[int]) -> dict[int, LogIdentity]:
    """Return the identities of these partitions. Raises `LogUnavailable` for an empty one."""
    wanted = list(partitions)
    for partition in wanted:
        if partition not in identities:
            raise LogUnavailable(f"{topic.name}/{partition} is empty: its creation is not complete")
    return {partition: identities[partition] for partition in wanted}


def start_of(topic: Log, partition: int, origin: LogIdentity, stored: Position | None) -> Position:
    """Return the position to fold from: the one that was `stored` before `origin` was read, or the beginning.

    Raises `LogChanged` if `stored` is no position in this log: it was recreated, or truncated (`LogShortened`).
    """
    if stored is None:
        return Position(origin.log_id, origin.extent.beginning)
    if stored.log_id != origin.log_id:
        why = f"it was recreated: its log id is {origin.log_id}, the view was folded from {stored.log_id}"
    elif stored.offset > (end := origin.extent.end):
        why = f"it was shortened: it ends at {end}, the view is at {stored.offset}"
        raise LogShortened.at(topic.name, partition, end, why)
    elif stored.offset < origin.extent.beginning:
        why = f"it begins at {origin.extent.beginning}, the view is at {stored.offset}: records are missing"
    else:
        return stored
    raise LogChanged(f"{topic.name}/{partition} is not the log of this view: {why}", topic=topic.name)


async def confirmed_start(
    reader: LogReader,
    topic: Log,
    partition: int,
    origin: LogIdentity,
    stored: Position | None,
    witness: Witness | None,
) -> Position:
    """Return the start as `start_of`, by an end that other replicas confirm if the log seems to be shortened.

    A broker that was cut off, and leads the partition no more, answers an earlier end. Raises `LogUnavailable` if
    the leader is not confirmed, `LogChanged`, and `LogShortened` also if the log has others in the places of lost
    records: brokers give a record its time, so these are younger than the `witness`, the last that the view has.
    """
    if stored is not None and stored.offset > origin.extent.end:
        ends = await reader.confirmed_ends(topic.name, [partition])
        origin = origin._replace(extent=origin.extent._replace(end=ends[partition]))
    end = origin.extent.end
    try:
        start = start_of(topic, partition, origin, stored)
    except LogShortened as lost:
        lost.first = min(lost.first, await _first_younger(reader, topic, partition, witness, end))
        raise
    if stored is None or witness is None or stored.offset != witness.offset + 1:
        return start
    if (await reader.record(topic.name, partition, witness.offset)).timestamp_ms <= witness.no_later_than_ms:
        return start
    first = await _first_younger(reader, topic, partition, witness, end)
    why = f"it lost the records from {first} on, and others have their offsets"
    raise LogShortened.at(topic.name, partition, first, why)


async def _first_younger(reader: LogReader, topic: Log, partition: int, witness: Witness | None, end: int) -> int:
    """Return the offset of the first record that is younger than the witness, else the log's end."""
    if witness is None:
        return end
    found = await reader.offsets_from(topic.name, [partition], witness.no_later_than_ms + 1)
    return min(found[partition], end)
