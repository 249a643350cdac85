"""Counts are read again of partitions that changed, and of those that a reader waits for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis

from libs.contracts.log_records import Position
from libs.tally.errors import ViewsUnavailable
from libs.views.valkey import watched_reads
from libs.views.valkey.function_loading import load_functions, open_valkey
from libs.views.votes.reply_types import PartitionState
from services.query.contest_sums import ContestSums
from tests.support.builders.contests import a_cast
from tests.support.clients.vote_views import FoldInput, VoteViews, let_be_whole

PARTITIONS = 4
ALL = tuple(range(PARTITIONS))


@pytest.fixture
async def views(valkey_address: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[VoteViews]:
    """Without reads in turn."""
    monkeypatch.setattr(watched_reads, "LEAST_HOLD_S", 3_600.0)
    monkeypatch.setattr(watched_reads, "LONGEST_HOLD_S", 3_600.0)
    valkey = open_valkey(valkey_address)
    await load_functions(valkey)
    views = VoteViews(valkey, namespace, PARTITIONS)
    await let_be_whole(views, ALL)
    yield views
    await valkey.close()


@pytest.fixture
async def sums(views: VoteViews) -> ContestSums:
    sums = ContestSums(views, "contest", ALL)
    assert await sums.refresh()
    return sums


async def fold(views: VoteViews, partition: int, offset: int = 0) -> None:
    cast = FoldInput(a_cast(voter=f"v{offset}", vote_id=f"i{offset}"), offset, 1_000)
    await views.apply(partition, Position("log", offset), [cast], offset + 1)


async def test_a_refresh_reads_the_partitions_that_changed(
    views: VoteViews, sums: ContestSums, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[int]] = []
    changed_of = views.changed

    async def changed(contest: str, known: Any) -> list[int]:
        asked.append(list(known))
        return await changed_of(contest, known)

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
    """As by functions of another version, whose notes this one does not read."""
    await fold(views, 1)
    await sums._watched.due(ALL)
    sums._watched.note_read(ALL, ALL)
    assert not await sums.refresh()
    assert await sums.refresh({1: 1})


async def test_a_view_that_is_folded_again_shows_nothing_to_who_has_not_read_it(
    views: VoteViews, sums: ContestSums, valkey_address: str, namespace: str
) -> None:
    """Such as a gateway that is started after Valkey lost its data: what it showed would be too little."""
    for offset in range(2):
        await fold(views, 1, offset)
    assert await sums.refresh()
    async with Redis.from_url(valkey_address) as valkey:
        await valkey.unlink(*[key async for key in valkey.scan_iter(f"{namespace}:*")])
    await fold(views, 1)
    started = ContestSums(views, "contest", ALL)
    with pytest.raises(ViewsUnavailable, match="computed again"):
        await started.refresh()
    assert not await sums.refresh({1: 9})
    assert sums.counts.figures["", ""].count == 2
    await fold(views, 1, 1)
    await let_be_whole(views, ALL)
    assert await started.refresh()
    assert started.counts.figures["", ""].count == 2


async def test_a_view_that_was_whole_and_is_emptied_before_it_is_read_shows_nothing(
    views: VoteViews, monkeypatch: pytest.MonkeyPatch
) -> None:
    state_of = views.state

    async def state_before(partition: int) -> PartitionState:
        return replace(await state_of(partition), position=Position("log", 9))

    await fold(views, 1)
    started = ContestSums(views, "contest", ALL)
    monkeypatch.setattr(views, "state", state_before)
    with pytest.raises(ViewsUnavailable, match="computed again"):
        await started.refresh()
    monkeypatch.setattr(views, "state", state_of)
    assert await started.refresh()
