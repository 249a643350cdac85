"""Counts are read again of partitions that changed, and of those that a reader waits for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from libs.contracts.log_records import Position
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import LogCreated
from libs.views.valkey import watched_reads
from libs.views.valkey.function_loading import load_functions, open_valkey
from services.query.counts_snapshot import ContestSums
from tests.support.builders import a_cast
from tests.support.vote_views import FoldInput, VoteViews

PARTITIONS = 4
ALL = tuple(range(PARTITIONS))
FIRST = 2
"""Offset of the first vote."""


@pytest.fixture
async def views(valkey_address: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[VoteViews]:
    """Without reads in turn."""
    monkeypatch.setattr(watched_reads, "LEAST_HOLD_S", 3_600.0)
    monkeypatch.setattr(watched_reads, "LONGEST_HOLD_S", 3_600.0)
    valkey = open_valkey(valkey_address)
    await load_functions(valkey)
    views = VoteViews(valkey, namespace, PARTITIONS)
    for partition in ALL:
        await open_gate(views, partition)
    yield views
    await valkey.close()


async def open_gate(views: VoteViews, partition: int) -> None:
    fence = await views.shut(partition, 0)
    assert fence is not None
    first = [FoldInput(LogCreated("log"), 0, 1_000), FoldInput(fence, 1, 1_000)]
    await views.apply(partition, Position("log", 0), first, FIRST)


@pytest.fixture
async def sums(views: VoteViews) -> ContestSums:
    sums = ContestSums(views, "contest", ALL)
    assert await sums.refresh()
    return sums


async def fold(views: VoteViews, partition: int, offset: int = FIRST) -> None:
    await views.apply(partition, Position("log", offset), [await vote(views, partition, offset)], offset + 1)


async def vote(views: VoteViews, partition: int, offset: int) -> FoldInput:
    incarnation = (await views.state(partition)).incarnation
    return FoldInput(a_cast(voter=f"v{offset}", vote_id=f"i{offset}", incarnation=incarnation), offset, 1_000)


async def folded_without_a_note(views: VoteViews, sums: ContestSums, *partitions: int) -> None:
    """Fold a vote as functions of another version would, whose notes this one does not read."""
    for partition in partitions:
        await fold(views, partition)
    await sums._watched.due(ALL)
    sums._watched.note_read(ALL, ALL)


async def test_a_refresh_reads_the_partitions_that_changed(
    views: VoteViews, sums: ContestSums, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[int]] = []
    ask = views.changed

    async def changed(contest: str, known: object) -> list[int]:
        asked.append(list(known))  # type: ignore[call-overload]
        return await ask(contest, known)  # type: ignore[arg-type]

    monkeypatch.setattr(views, "changed", changed)
    assert not await sums.refresh()
    await fold(views, 2)
    assert await sums.refresh()
    assert not await sums.refresh()
    assert asked == [[], [2], []]
    assert sum(part.changed >= 0 for part in sums.parts) == 1


async def test_what_a_reader_waits_for_is_read_though_no_change_was_noted(
    views: VoteViews, sums: ContestSums
) -> None:
    await folded_without_a_note(views, sums, 1)
    assert not await sums.refresh()
    assert await sums.refresh({1: FIRST + 1})


async def test_a_view_that_is_folded_again_shows_nothing_to_who_has_not_read_it(
    views: VoteViews, sums: ContestSums, valkey_address: str, namespace: str
) -> None:
    """Such as a gateway that is started after Valkey lost its data: what it showed would be too little."""
    for offset in (FIRST, FIRST + 1):
        await fold(views, 1, offset)
    assert await sums.refresh()
    async with Redis.from_url(valkey_address) as redis:
        await redis.unlink(*[key async for key in redis.scan_iter(f"{namespace}:*")])
    await views.apply(1, Position("", 0), [FoldInput(LogCreated("log"), 0, 1_000)], FIRST)
    await fold(views, 1)
    started = ContestSums(views, "contest", ALL)
    with pytest.raises(ViewsUnavailable, match="computed again"):
        await started.refresh()
    assert not await sums.refresh({1: FIRST + 9})
    assert sums.counts.figures["", ""].count == 2
    for partition in (0, 2, 3):
        await open_gate(views, partition)
    fence = await views.shut(1, 0)
    assert fence is not None
    items = [await vote(views, 1, FIRST + 1)]
    await views.apply(1, Position("log", FIRST + 1), [*items, FoldInput(fence, FIRST + 2, 1_000)], FIRST + 3)
    assert await started.refresh()
    assert started.counts.figures["", ""].count == 2
