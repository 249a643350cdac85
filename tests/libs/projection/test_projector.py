"""The loop on a real Kafka: every record is folded once and in order, despite any fault."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.structs import TopicPartition

from libs.contracts.log_records import Position
from libs.contracts.topics import Topic, votes_topic
from libs.kafka.errors import LogChanged
from libs.kafka.reader import Extent, LogReader
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.kafka.writer import LogWriter
from libs.projection.projector import Projector
from libs.projection.settings import VOTES, ProjectorSettings
from libs.tally.errors import LogUnavailable, ViewsUnavailable
from tests.libs.projection.in_memory_projection import MemoryProjection, Views
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

PARTITIONS = 4
SETTINGS = ProjectorSettings(projector_check_interval_ms=100)


@pytest.fixture
def settings(kafka: str) -> KafkaSettings:
    return KafkaSettings(kafka_bootstrap_servers=kafka, kafka_request_timeout_ms=2_000)


@pytest.fixture
async def topic(settings: KafkaSettings, namespace: str) -> Topic:
    topic = votes_topic(namespace, PARTITIONS)
    await create_topics(settings, [topic])
    return topic


class Feed:
    """Numbers appended round robin, and what the views should then hold."""

    def __init__(self, writer: LogWriter, topic: Topic) -> None:
        self._writer = writer
        self._topic = topic
        self.count = 0

    async def append(self, count: int) -> None:
        numbers = range(self.count, self.count + count)
        self.count += count
        await asyncio.gather(
            *(self._writer.append(self._topic.name, n % PARTITIONS, b"%d" % n, deadline_s=30) for n in numbers)
        )

    def is_folded_into(self, views: Views) -> bool:
        """Everything once, and in order in each partition."""
        for partition in range(PARTITIONS):
            wanted = [b"%d" % n for n in range(partition, self.count, PARTITIONS)]
            assert views.values[partition] == wanted[: len(views.values[partition])]
        return len(views.all_values()) == self.count


@pytest.fixture
async def feed(settings: KafkaSettings, topic: Topic) -> AsyncIterator[Feed]:
    writer = LogWriter(settings)
    await writer.start()
    yield Feed(writer, topic)
    await writer.stop()


@asynccontextmanager
async def running(projector: Projector) -> AsyncIterator["asyncio.Task[None]"]:
    """As the service runs it: cancelled at the end, unless it has stopped by itself."""
    task = asyncio.create_task(projector.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def stops(task: "asyncio.Task[None]") -> str:
    with pytest.raises(LogChanged) as stopped:
        await asyncio.wait_for(task, 20)
    return stopped.value.message


async def test_everything_is_folded_once_and_in_order(settings: KafkaSettings, topic: Topic, feed: Feed) -> None:
    views = Views()
    await feed.append(10_000)
    projector = Projector(MemoryProjection(topic, views), settings, SETTINGS, VOTES)
    async with running(projector):
        await eventually(lambda: feed.is_folded_into(views))
        await feed.append(1_000)
        await eventually(lambda: feed.is_folded_into(views))
        assert projector.assigned == set(range(PARTITIONS))
        await eventually(lambda: projector.lag == 0)
        assert sum(fold.folded for fold in projector.folds) == feed.count + PARTITIONS
        assert all(fold.stalled_since is None and fold.folded for fold in projector.folds)
    assert views.refusals == 0


async def test_a_view_that_came_back_older_is_folded_again_from_there(
    settings: KafkaSettings, topic: Topic, feed: Feed
) -> None:
    views = Views()
    async with running(Projector(MemoryProjection(topic, views), settings, SETTINGS, VOTES)):
        await feed.append(1_000)
        await eventually(lambda: feed.is_folded_into(views))
        log_id = views.positions[1].log_id
        views.positions[1] = Position(log_id, 51)
        del views.values[1][50:]
        del views.positions[2], views.values[2]
        await feed.append(8)
        await eventually(lambda: feed.is_folded_into(views))


async def test_an_emptied_view_is_folded_again_though_nothing_new_comes(
    settings: KafkaSettings, topic: Topic, feed: Feed
) -> None:
    views = Views()
    await feed.append(40)
    async with running(Projector(MemoryProjection(topic, views), settings, SETTINGS, VOTES)):
        await eventually(lambda: feed.is_folded_into(views))
        views.positions.clear()
        views.values.clear()
        await eventually(lambda: feed.is_folded_into(views))


async def test_a_zombies_batch_after_a_rebalance_changes_nothing(
    settings: KafkaSettings, topic: Topic, feed: Feed
) -> None:
    """The first projector stops inside a fold, as one that was frozen; the second folds all; then it wakes."""
    views, hold = Views(), asyncio.Event()
    await feed.append(1_000)
    zombie = MemoryProjection(topic, views, hold)
    async with running(Projector(zombie, settings, SETTINGS, VOTES, group="zombie")):
        await eventually(lambda: zombie.calls)
        async with running(Projector(MemoryProjection(topic, views), settings, SETTINGS, VOTES, group="other")):
            await eventually(lambda: feed.is_folded_into(views))
            hold.set()
            await feed.append(100)
            await eventually(lambda: feed.is_folded_into(views))


async def test_two_projectors_share_and_take_over(settings: KafkaSettings, topic: Topic, feed: Feed) -> None:
    views = Views()
    first = Projector(MemoryProjection(topic, views), settings, SETTINGS, VOTES)
    second = Projector(MemoryProjection(topic, views), settings, SETTINGS, VOTES)
    async with running(second):
        async with running(first):
            await feed.append(1_000)
            await eventually(lambda: len(first.assigned) == len(second.assigned) == 2)
            assert first.assigned.isdisjoint(second.assigned)
            await feed.append(1_000)
            await eventually(lambda: feed.is_folded_into(views))
        await feed.append(1_000)
        await eventually(lambda: feed.is_folded_into(views))
        assert len(second.assigned) == PARTITIONS
    assert not first.assigned


async def test_absent_views_are_waited_for(settings: KafkaSettings, topic: Topic, feed: Feed) -> None:
    views = Views()
    views.away = True
    projector = Projector(MemoryProjection(topic, views), settings, SETTINGS, VOTES)
    async with running(projector):
        await feed.append(100)
        await eventually(lambda: len(projector.folds) == 4 and all(fold.stalled_since for fold in projector.folds))
        with pytest.raises(ViewsUnavailable, match="none of 4 partitions"):
            await projector.check()
        views.away = False
        await eventually(lambda: feed.is_folded_into(views))
        views.away = True
        await feed.append(100)
        await eventually(lambda: all(fold.stalled_since for fold in projector.folds))
        views.away = False
        await eventually(lambda: feed.is_folded_into(views))
        assert not any(fold.stalled_since for fold in projector.folds)


async def test_a_bug_in_one_partitions_fold_skips_nothing_and_holds_back_no_other(
    settings: KafkaSettings, topic: Topic, feed: Feed
) -> None:
    views = Views()
    views.broken = {3}
    eager = ProjectorSettings(projector_check_interval_ms=100, projector_max_queued_records=100)
    projector = Projector(MemoryProjection(topic, views), settings, eager, VOTES)
    async with running(projector):
        await feed.append(4_000)
        await eventually(lambda: [len(views.values[p]) for p in range(4)] == [1_000, 1_000, 1_000, 0])
        (stalled,) = [fold for fold in projector.folds if fold.stalled_since]
        await projector.check()
        assert stalled.partition == 3
        held = stalled.queued
        await feed.append(4_000)
        await eventually(lambda: [len(views.values[p]) for p in range(4)] == [2_000, 2_000, 2_000, 0])
        assert stalled.queued == held
        views.broken = set()
        await eventually(lambda: feed.is_folded_into(views))


async def test_a_recreated_log_stops_the_projector(settings: KafkaSettings, topic: Topic, feed: Feed) -> None:
    views = Views()
    await feed.append(100)
    views.positions = {partition: Position("another log", 5) for partition in range(PARTITIONS)}
    projector = Projector(MemoryProjection(topic, views), settings, SETTINGS, VOTES)
    async with running(projector) as task:
        assert "it was recreated" in await stops(task)
    assert not views.all_values()


async def test_a_shortened_log_stops_the_projector(settings: KafkaSettings, topic: Topic, feed: Feed) -> None:
    views = Views()
    async with running(Projector(MemoryProjection(topic, views), settings, SETTINGS, VOTES)):
        await feed.append(100)
        await eventually(lambda: feed.is_folded_into(views))
    views.positions[2] = Position(views.positions[2].log_id, 1_000)
    async with running(Projector(MemoryProjection(topic, views), settings, SETTINGS, VOTES)) as task:
        assert "it was shortened: it ends at 26, the view is at 1000" in await stops(task)


async def test_a_broker_that_leads_no_more_does_not_stop_the_projector(
    settings: KafkaSettings, topic: Topic, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a broker, cut off from the others, answers an end before what was read from the one that leads now."""
    views, stale, refused = Views(), set[int](), list[int]()
    ends_of, extents_of, confirmed_of = LogReader.end_offsets, LogReader.extents, LogReader.confirmed_ends

    async def ends(reader: LogReader, name: str, partitions: Collection[int]) -> dict[int, int]:
        return {
            each: 5 if each in stale else end for each, end in (await ends_of(reader, name, partitions)).items()
        }

    async def extents(reader: LogReader, name: str, partitions: Collection[int]) -> dict[int, Extent]:
        found = await extents_of(reader, name, partitions)
        return {each: Extent(0, 5) if each in stale else extent for each, extent in found.items()}

    async def confirmed(reader: LogReader, name: str, partitions: Collection[int]) -> dict[int, int]:
        if stale.intersection(partitions):
            refused.extend(stale)
            raise LogUnavailable("too few replicas confirm who leads")
        return await confirmed_of(reader, name, partitions)

    monkeypatch.setattr(LogReader, "end_offsets", ends)
    monkeypatch.setattr(LogReader, "extents", extents)
    monkeypatch.setattr(LogReader, "confirmed_ends", confirmed)
    async with running(Projector(MemoryProjection(topic, views), settings, SETTINGS, VOTES)):
        await feed.append(100)
        await eventually(lambda: feed.is_folded_into(views))
        stale.add(2)
        await eventually(lambda: len(refused) > 0)
        await feed.append(40)
        await eventually(lambda: feed.is_folded_into(views))
    projector = Projector(MemoryProjection(topic, views), settings, SETTINGS, VOTES)
    async with running(projector):
        await eventually(lambda: [fold.partition for fold in projector.folds if fold.stalled_since] == [2])
        await feed.append(4)
        await eventually(lambda: [len(views.values[p]) for p in range(4)] == [36, 36, 35, 36])
        stale.clear()
        await eventually(lambda: feed.is_folded_into(views))


async def test_a_log_that_lost_its_beginning_stops_the_projector(
    settings: KafkaSettings, topic: Topic, feed: Feed
) -> None:
    await feed.append(100)
    await delete_records(settings, topic, {0: 10})
    async with running(Projector(MemoryProjection(topic, Views()), settings, SETTINGS, VOTES)) as task:
        assert "its first records were deleted" in await stops(task)


async def test_a_log_recreated_under_a_running_projector_stops_it(
    settings: KafkaSettings, topic: Topic, feed: Feed
) -> None:
    views = Views()
    async with running(Projector(MemoryProjection(topic, views), settings, SETTINGS, VOTES)) as task:
        await feed.append(100)
        await eventually(lambda: feed.is_folded_into(views))
        await administer(settings, lambda admin: admin.delete_topics([topic.name]))
        await eventually(lambda: created(settings, topic))
        assert "it was recreated" in await stops(task)


async def test_a_hole_in_the_log_stops_the_projector(settings: KafkaSettings, topic: Topic) -> None:
    """A transaction's marker takes an offset and is no record; a missing record is unknown."""
    producer = AIOKafkaProducer(**connection(settings), transactional_id=topic.name)
    views = Views()
    async with producer, running(Projector(MemoryProjection(topic, views), settings, SETTINGS, VOTES)) as task:
        for value in (b"before", b"after"):
            async with producer.transaction():
                await producer.send_and_wait(topic.name, value, partition=0)
        assert "has an offset gap: expected 2, found 3" in await stops(task)
    assert b"after" not in views.values[0]


async def delete_records(settings: KafkaSettings, topic: Topic, before: dict[int, int]) -> None:
    records = {
        TopicPartition(topic.name, p): RecordsToDelete(before_offset=offset) for p, offset in before.items()
    }
    await administer(settings, lambda admin: admin.delete_records(records))


async def created(settings: KafkaSettings, topic: Topic) -> bool:
    """False while the deletion of the old one is still under way."""
    try:
        await create_topics(settings, [topic])
    except LogUnavailable:
        return False
    return True


async def administer(settings: KafkaSettings, step: Callable[[AIOKafkaAdminClient], Awaitable[object]]) -> None:
    admin = AIOKafkaAdminClient(**connection(settings))
    await admin.start()
    await step(admin)
    await admin.close()
