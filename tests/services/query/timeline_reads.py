"""Votes and reads of a contest's past: its timeline, and its counts at a minute."""

from collections.abc import AsyncIterator
from typing import Any

import httpx

from libs.contracts.topics import VotesLog, catalogue_topic
from libs.tally.time_conversion import timestamp
from libs.views.votes.reply_types import ContestCounts
from libs.views.votes.timeline import MINUTE_MS, ChangesPage, Timeline
from services.query.position_wait import PositionWatch
from services.query.snapshot_cache import SnapshotCache
from tests.services.query import query_environment
from tests.services.query.query_environment import PARTITIONS, START_MS, Catalogue, QueryEnvironment
from tests.support.clients.vote_views import VoteViews

PATH = "/contests/song/timeline"
COUNTS = "/contests/song/vote_updates?sources=true"
START = START_MS // MINUTE_MS
ONE_MINUTE = 60_000_000


def minute(number: int) -> str:
    """The beginning of the minute, counted from that of the first vote."""
    text = timestamp((START + number) * ONE_MINUTE)
    assert text is not None
    return text


async def song(env: QueryEnvironment, **config: Any) -> str:
    key = await query_environment.song(env, **config)
    await env.production.register("song", "sms", title="Sms", mapping={"A": "a", "B": "b"}, is_in_total=True)
    await env.production.register("song", "tv", title="Tv", mapping={"A": "a"}, is_in_total=False)
    return key


async def voted(env: QueryEnvironment, *minutes: int) -> None:
    """A vote in each of these minutes, from the first vote's, all in one partition."""
    for number in minutes:
        env.clock_ms = START_MS + number * MINUTE_MS
        await env.vote("a", voter="ann")


async def read(env: QueryEnvironment, key: str, **query: Any) -> dict[str, Any]:
    """With everything that was folded in it."""
    await env.counts(key, position=env.head())
    found: dict[str, Any] = await env.read(f"{PATH}?{httpx.QueryParams(query)}", key)
    return found


async def at(env: QueryEnvironment, key: str, minute: int, second: float = 0.0, **headers: str) -> httpx.Response:
    """The counts as of a moment of the minute, counted from the first vote's."""
    moment = timestamp(int(((START + minute) * 60 + second) * 1_000_000))
    return await env.get(f"{COUNTS}&at={moment}", key, **headers)


async def count_at(env: QueryEnvironment, key: str, minute: int) -> int:
    count: int = (await at(env, key, minute)).json()["count"]
    return count


class CountingTimeline(Timeline):
    """How many of its parts were read as of a minute, and how many changes in all."""

    asked = fetched = 0

    async def counts_at(self, *args: Any) -> ContestCounts:
        self.asked += 1
        return await super().counts_at(*args)

    async def changes(self, *args: Any) -> AsyncIterator[ChangesPage]:
        async for page in super().changes(*args):
            self.fetched += len(page.changes)
            yield page


def snapshots_of(views: VoteViews, catalogue: Catalogue) -> SnapshotCache:
    topic, log = catalogue_topic(views._namespace), VotesLog("any", PARTITIONS)
    return SnapshotCache(views, PositionWatch(views), catalogue.views, topic, log, interval_s=0.01)
