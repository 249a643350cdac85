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
from tests.support.eventually import DEADLINE_S, eventually

pytestmark = pytest.mark.slow

PARTITIONS = 4


class Feed:
    """Numbers appended round robin, what the views should then hold, and projectors that fold them."""

    def __init__(self, settings: KafkaSettings, topic: Topic) -> None:
        self.settings = settings
        self.topic = topic
        self.writer = LogWriter(settings)
        self.count = 0

    def projector(
        self, views: Views, *, hold: asyncio.Event | None = None, group: str | None = None, **settings: int
    ) -> Projector:
        its = ProjectorSettings(projector_check_interval_ms=100).model_copy(update=settings)
        projection = MemoryProjection(self.topic, views, hold)
        return Projector(projection, self.settings, its, VOTES, group=group)

    async def append(self, count: int) -> None:
        numbers = range(self.count, self.count + count)
        self.count += count
        name = self.topic.name
        await asyncio.gather(
            *(self.writer.append(name, n % PARTITIONS, b"%d" % n, deadline_s=30) for n in numbers)
        )

    async def is_folded(self, views: Views) -> None:
        """Wait until everything is there once, and in order in each partition."""
        await eventually(lambda: self._is_folded(views))

    def _is_folded(self, views: Views) -> bool:
        for partition in range(PARTITIONS):
            wanted = [b"%d" % n for n in range(partition, self.count, PARTITIONS)]
            assert views.values[partition] == wanted[: len(views.values[partition])]
        return len(views.all_values()) == self.count

    async def append_and_fold(self, count: int, views: Views) -> None:
        await self.append(count)
        await self.is_folded(views)


@pytest.fixture
async def feed(kafka: str, namespace: str) -> AsyncIterator[Feed]:
    settings = KafkaSettings(kafka_bootstrap_servers=kafka, kafka_request_timeout_ms=2_000)
    feed = Feed(settings, votes_topic(namespace, PARTITIONS))
    await create_topics(settings, [feed.topic])
    await feed.writer.start()
    yield feed
    await feed.writer.stop()


@asynccontextmanager
async def running(projector: Projector) -> AsyncIterator["asyncio.Task[None]"]:
    """As the service runs it: cancelled at the end, unless it has stopped by itself."""
    task = asyncio.create_task(projector.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def stopped(run: Awaitable[None]) -> str:
    """Wait until it stops by itself; return why."""
    with pytest.raises(LogChanged) as stopped:
        await asyncio.wait_for(run, DEADLINE_S)
    return stopped.value.message


def sizes(views: Views) -> list[int]:
    return [len(views.values[partition]) for partition in range(PARTITIONS)]


async def test_everything_is_folded_once_and_in_order(feed: Feed) -> None:
    views = Views()
    await feed.append(10_000)
    projector = feed.projector(views)
    async with running(projector):
        await feed.is_folded(views)
        await feed.append_and_fold(1_000, views)
        assert projector.assigned == set(range(PARTITIONS))
        await eventually(lambda: projector.lag == 0)
        assert sum(fold.folded for fold in projector.folds) == feed.count + PARTITIONS
        assert all(fold.stalled_since is None and fold.folded for fold in projector.folds)
    assert views.refusals == 0


async def test_a_view_that_came_back_older_or_empty_is_folded_again_from_there(feed: Feed) -> None:
    """Also if nothing new comes."""
    views = Views()
    async with running(feed.projector(views)):
        await feed.append_and_fold(1_000, views)
        views.positions[1] = Position(views.positions[1].log_id, 51)
        del views.values[1][50:]
        del views.positions[2], views.values[2]
        await feed.append_and_fold(8, views)
        views.positions.clear()
        views.values.clear()
        await feed.is_folded(views)


async def test_a_zombies_batch_after_a_rebalance_changes_nothing(feed: Feed) -> None:
    """The first projector stops inside a fold, as one that was frozen; the second folds all; then it wakes."""
    views, hold = Views(), asyncio.Event()
    await feed.append(1_000)
    async with running(feed.projector(views, hold=hold, group="zombie")):
        await eventually(lambda: views.begun)
        async with running(feed.projector(views, group="other")):
            await feed.is_folded(views)
            hold.set()
            await feed.append_and_fold(100, views)


async def test_two_projectors_share_and_take_over(feed: Feed) -> None:
    views = Views()
    first, second = feed.projector(views), feed.projector(views)
    async with running(second):
        async with running(first):
            await feed.append(1_000)
            await eventually(lambda: len(first.assigned) == len(second.assigned) == 2)
            assert first.assigned.isdisjoint(second.assigned)
            await feed.append_and_fold(1_000, views)
        await feed.append_and_fold(1_000, views)
        assert len(second.assigned) == PARTITIONS
    assert not first.assigned


async def test_absent_views_are_waited_for(feed: Feed) -> None:
    views = Views()
    views.away = True
    projector = feed.projector(views)
    async with running(projector):
        await feed.append(100)
        await eventually(lambda: len(projector.folds) == 4 and all(fold.stalled_since for fold in projector.folds))
        with pytest.raises(ViewsUnavailable, match="none of 4 partitions"):
            await projector.check()
        views.away = False
        await feed.is_folded(views)
        views.away = True
        await feed.append(100)
        await eventually(lambda: all(fold.stalled_since for fold in projector.folds))
        views.away = False
        await feed.is_folded(views)
        assert not any(fold.stalled_since for fold in projector.folds)


async def test_a_bug_in_one_partitions_fold_skips_nothing_and_holds_back_no_other(feed: Feed) -> None:
    views = Views()
    views.broken = {3}
    projector = feed.projector(views, projector_max_queued_records=100)
    async with running(projector):
        await feed.append(4_000)
        await eventually(lambda: sizes(views) == [1_000, 1_000, 1_000, 0])
        (stalled,) = [fold for fold in projector.folds if fold.stalled_since]
        await projector.check()
        assert stalled.partition == 3
        held = stalled.queued
        await feed.append(4_000)
        await eventually(lambda: sizes(views) == [2_000, 2_000, 2_000, 0])
        assert stalled.queued == held
        views.broken = set()
        await feed.is_folded(views)


async def test_a_view_that_has_records_which_the_log_lost_begins_again(feed: Feed) -> None:
    """The log ends before the view's position, or has other, younger records there by now."""
    views = Views()
    async with running(feed.projector(views)):
        await feed.append_and_fold(100, views)
    views.positions[2] = Position(views.positions[2].log_id, 1_000)
    views.values[2].append(b"a lost record")
    async with running(feed.projector(views)):
        await feed.is_folded(views)
        assert views.lost == [(2, 26, 1_000)]
    views.values[1][-1], views.times[1] = b"a lost record", views.times[1] - 1
    async with running(feed.projector(views)):
        await eventually(lambda: len(views.lost) == 2)
        await feed.is_folded(views)
    partition, first, end = views.lost[1]
    assert (partition, end) == (1, 26)
    assert 0 < first < end
    assert b"a lost record" not in views.all_values()


async def test_a_log_that_was_recreated_or_lost_its_beginning_stops_the_projector(feed: Feed) -> None:
    views = Views()
    async with running(feed.projector(views)):
        await feed.append_and_fold(100, views)
    views.positions[2] = Position("another log", 5)
    assert "it was recreated" in await stopped(feed.projector(views).run())
    assert len(views.all_values()) == feed.count
    lost = {TopicPartition(feed.topic.name, 0): RecordsToDelete(before_offset=10)}
    await administer(feed, lambda admin: admin.delete_records(lost))
    assert "its first records were deleted" in await stopped(feed.projector(Views()).run())


async def test_a_broker_that_leads_no_more_does_not_stop_the_projector(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
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
    async with running(feed.projector(views)):
        await feed.append_and_fold(100, views)
        stale.add(2)
        await eventually(lambda: len(refused) > 0)
        await feed.append_and_fold(40, views)
    projector = feed.projector(views)
    async with running(projector):
        await eventually(lambda: [fold.partition for fold in projector.folds if fold.stalled_since] == [2])
        await feed.append(4)
        await eventually(lambda: sizes(views) == [36, 36, 35, 36])
        stale.clear()
        await feed.is_folded(views)


async def test_a_log_recreated_under_a_running_projector_stops_it(feed: Feed) -> None:
    views = Views()
    async with running(feed.projector(views)) as task:
        await feed.append_and_fold(100, views)
        await administer(feed, lambda admin: admin.delete_topics([feed.topic.name]))
        await eventually(lambda: is_created(feed))
        assert "it was recreated" in await stopped(task)


async def test_a_hole_in_the_log_stops_the_projector(feed: Feed) -> None:
    """A transaction's marker takes an offset and is no record; a missing record is unknown."""
    producer = AIOKafkaProducer(**connection(feed.settings), transactional_id=feed.topic.name)
    views = Views()
    async with producer, running(feed.projector(views)) as task:
        for value in (b"before", b"after"):
            async with producer.transaction():
                await producer.send_and_wait(feed.topic.name, value, partition=0)
        assert "has an offset gap: expected 2, found 3" in await stopped(task)
    assert b"after" not in views.values[0]


async def is_created(feed: Feed) -> bool:
    """False while the deletion of the old one is still under way."""
    try:
        await create_topics(feed.settings, [feed.topic])
    except LogUnavailable:
        return False
    return True


async def administer(feed: Feed, step: Callable[[AIOKafkaAdminClient], Awaitable[object]]) -> None:
    admin = AIOKafkaAdminClient(**connection(feed.settings))
    await admin.start()
    await step(admin)
    await admin.close()
