"""The fold of one partition, with exact control of when batches arrive."""

from collections.abc import AsyncIterator
from functools import partial

import pytest

from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import Topic
from libs.projection.partition_worker import PartitionWorker
from tests.libs.projection.in_memory_projection import MemoryProjection, Steering, Views, folding
from tests.support.eventually import eventually


def records(begin: int, end: int) -> list[LogRecord]:
    return [LogRecord(offset, 0, b"%d" % offset) for offset in range(begin, end)]


@pytest.fixture
def views() -> Views:
    return Views()


@pytest.fixture
def source() -> Steering:
    return Steering()


@pytest.fixture
async def fold(views: Views, source: Steering) -> AsyncIterator[PartitionWorker]:
    """Placed at offset 0."""
    async with folding(MemoryProjection(Topic("t", 1), views), source) as fold:
        source.sought.clear()
        yield fold


async def folded(views: Views, end: int) -> None:
    await eventually(lambda: views.values[0] == [b"%d" % offset for offset in range(end)])


async def test_what_does_not_follow_is_fetched_again(
    fold: PartitionWorker, views: Views, source: Steering
) -> None:
    fold.offer(records(0, 3))
    fold.offer(records(5, 8))
    assert source.sought == [3]
    fold.offer(records(3, 8))
    await folded(views, 8)


async def test_a_view_ahead_of_the_batch_gets_only_the_rest(
    fold: PartitionWorker, views: Views, source: Steering
) -> None:
    """Another projector folded the first part, or an outage hid that this one did."""
    views.positions[0] = Position("log", 4)
    views.values[0] = [b"0", b"1", b"2", b"3"]
    fold.offer(records(0, 6))
    await folded(views, 6)
    assert not source.sought


async def test_a_view_that_goes_back_to_where_the_fold_began_is_no_defect(
    fold: PartitionWorker, views: Views, caplog: pytest.LogCaptureFixture
) -> None:
    """A fold takes several calls: Valkey may lose what the first ones wrote before the last one arrives."""
    views.goes_back = Position("log", 0)
    fold.offer(records(0, 6))
    await folded(views, 6)
    assert [record.levelname for record in caplog.records if "t/0" in record.getMessage()] == ["WARNING"]


async def test_a_view_that_has_not_begun_is_not_sought_again_while_its_first_records_are_fetched(
    views: Views, source: Steering
) -> None:
    """Each seek discards the fetch in flight: a broker slower than the check would never get to deliver."""
    projection = CountedProjection(Topic("t", 1), views)
    async with folding(projection, source) as fold:
        for _ in range(3):
            before = projection.checks
            fold.check_view()
            await eventually(partial(projection.was_checked_since, before))
        assert source.sought == [0]
        fold.offer(records(0, 3))
        await folded(views, 3)
        del views.positions[0], views.values[0]
        fold.check_view()
        await eventually(lambda: source.sought == [0, 0])


async def test_a_stalled_partition_is_paused_once_it_has_records(
    fold: PartitionWorker, views: Views, source: Steering
) -> None:
    """A fetch in progress goes on without a partition that was resumed meanwhile."""
    views.away = True
    fold.check_view()
    await eventually(lambda: fold.stalled_since)
    assert not source.is_paused
    fold.offer(records(0, 3))
    assert source.is_paused
    views.away = False
    await folded(views, 3)
    await eventually(lambda: not source.is_paused)
    views.away = True
    fold.offer(records(3, 4))
    await eventually(lambda: source.is_paused)


class CountedProjection(MemoryProjection):
    """Counts how often the view's position is read."""

    checks = 0

    def was_checked_since(self, checks: int) -> bool:
        return self.checks > checks

    async def position(self, partition: int) -> Position | None:
        self.checks += 1
        return await super().position(partition)
