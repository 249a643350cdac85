"""`?at=`: the record at the end of a minute, by the catalogue's current records."""

import asyncio
from dataclasses import replace

import httpx
import pytest

from libs.views.votes.timeline import MINUTE_MS, Timeline
from libs.web.errors import RateLimited
from services.query.historical_counts import PastCounts, PastReads, rows_of
from tests.services.query.query_environment import START_MS, QueryEnvironment, closed_contest
from tests.services.query.timeline_reads import (
    COUNTS,
    START,
    CountingTimeline,
    at,
    count_at,
    snapshots_of,
    song,
    voted,
)
from tests.support.builders.contests import a_removal


async def test_every_minute_is_answered_as_at_its_end(env: QueryEnvironment) -> None:
    key = await song(env)
    then: list[httpx.Response] = []
    for minute in range(12):
        env.clock_ms = START_MS + minute * MINUTE_MS
        if minute % 3 < 2:
            await env.vote("ab"[minute % 2], 1 + minute, voter=f"voter {minute // 2}", anonymous=minute % 4 == 0)
            await env.report("sms", ("A", minute, minute // 2, 1), ("B", 3, 3, 0))
        if minute == 7:
            await env.fold(a_removal("v1", voter="voter 0", contest="song", anonymous=True))
        if minute == 10:
            await env.vote("a", 2, voter="voter 1", source="c-paid")
        then.append(await env.get(f"{COUNTS}&min_position={env.head()}", key))
    await env.vote("b", voter="the last")
    assert len({answer.content for answer in then}) == 8
    for minute, answer in enumerate(then[:-1]):
        for second in (0.0, 59.999999):
            found = await at(env, key, minute, second)
            assert found.json() == answer.json(), minute
            assert found.headers["tally-final"] == "provisional"
    positions = [(await at(env, key, minute)).headers["tally-position"] for minute in (0, 11)]
    assert positions == [then[0].headers["tally-position"], (await env.get(COUNTS, key)).headers["tally-position"]]


async def test_before_the_contest_all_is_zero_and_the_future_is_now(env: QueryEnvironment) -> None:
    key = await song(env)
    await voted(env, 0, 5)
    now = await env.counts(key, position=env.head())
    for moment in ("0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2026-09-21T14:12:59.999999Z"):
        record = await env.read(f"{COUNTS}&at={moment}", key)
        assert record["count"] == record["unique_voter_count"] == record["participants"]["a"]["count"] == 0
        assert record["updated"] == record["created"]
        assert set(record["participants"]) == {"a", "b"}
    for moment in ("2026-09-21T14:18:00Z", "9999-12-31T23:59:59Z", "2026-09-21T16:18:59%2B02:00"):
        assert await env.read(f"{COUNTS}&at={moment}", key) == now


async def test_a_reader_may_wait_for_a_position_first(env: QueryEnvironment) -> None:
    key = await song(env)
    await voted(env, 0)
    await env.counts(key, position=env.head())
    await voted(env, 0, 2)
    found = await env.get(f"{COUNTS}&at=2026-09-21T14:13:00Z&min_position={env.head()}", key)
    assert found.json()["count"] == 2
    assert found.headers["tally-position"] != env.head()


async def test_a_minute_that_is_complete_may_be_kept_longer_than_one_that_runs(env: QueryEnvironment) -> None:
    key = await song(env)
    await voted(env, 0, 1, 4)
    await env.counts(key, position=env.head())
    answers = [await at(env, key, minute) for minute in range(6)]
    ages = [answer.headers["cache-control"].removeprefix("private, max-age=") for answer in answers]
    assert ages == ["60"] * 3 + ["1"] * 3
    for minute, answer in enumerate(answers):
        again = await at(env, key, minute, 0.0, **{"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["cache-control"] == answer.headers["cache-control"]
    assert len({answer.headers["etag"] for answer in answers}) == 3


async def test_what_lies_behind_the_close_is_final(env: QueryEnvironment) -> None:
    key = await song(env)
    await voted(env, 0)
    await env.production.change("contests", "song", closed_contest("ab"))
    env.clock_ms = START_MS + 3 * MINUTE_MS
    await env.close()
    await voted(env, 6)
    await env.counts(key, position=env.head())
    finals = [(await at(env, key, minute)).headers["tally-final"] for minute in (0, 2, 3, 4, 6, 9)]
    assert finals == ["provisional"] * 2 + ["final"] * 4
    assert await count_at(env, key, 4) == 1


async def test_what_was_asked_for_last_is_kept_and_no_more_than_fits(env: QueryEnvironment) -> None:
    await song(env)
    await voted(env, *range(8))
    timeline, snapshots = CountingTimeline(env.views), snapshots_of(env.views, env.production)
    past = PastCounts(timeline, PastReads(0), most_figures=12)

    async def asks(minute: int, times: int = 1) -> int:
        before, present = timeline.asked, await snapshots.newest("acme", "song")
        found = await asyncio.gather(*(past.as_of(present, START + minute) for _ in range(times)))
        assert [snapshot.counts.at("a", "").count for snapshot in found] == [minute + 1] * times
        return timeline.asked - before

    assert [await asks(minute) for minute in (0, 0, 1, 2, 0, 3, 1, 1, 0)] == [1, 0, 1, 1, 0, 1, 1, 0, 0]
    assert await asks(7) == 0
    assert await asks(5, times=20) == 1, "those who ask at once share the work"
    await env.vote("b", voter="ann")
    assert await asks(1) == 0, "the minute is complete"
    await env.vote("b", voter="bob")
    assert [await asks(1), await asks(1)] == [2, 0], "the first vote in another partition"


async def test_an_account_that_walks_through_the_past_is_slowed_down_and_others_are_not(
    env: QueryEnvironment,
) -> None:
    await song(env)
    await voted(env, *range(8))
    now = 0.0
    past = PastCounts(Timeline(env.views), PastReads(1, lambda: now))
    present = await snapshots_of(env.views, env.production).get("acme", "song")
    rows = sum(rows_of(part) for part in present.parts if part.changed >= 0)
    assert 10 < rows < 20
    for minute in range(2):
        await past.as_of(present, START + minute)
    with pytest.raises(RateLimited) as refused:
        await past.as_of(present, START + 2)
    assert refused.value.retry_after_s == 1 + 2 * rows - 20
    assert (await past.as_of(present, START + 1)).counts.at("a", "").count == 2
    assert (await past.as_of(replace(present, account="other"), START + 3)).counts.at("a", "").count == 4
    now += refused.value.retry_after_s
    assert (await past.as_of(present, START + 2)).counts.at("a", "").count == 3
