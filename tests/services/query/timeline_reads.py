"""Votes and reads of a contest's timeline."""

from typing import Any

from libs.tally.time_conversion import timestamp
from libs.views.votes.timeline import MINUTE_MS
from tests.services.query import query_environment
from tests.services.query.query_environment import START_MS, QueryEnvironment

PATH = "/contests/song/timeline"
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
    answer = await env.client.get(PATH, params=query, headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found
