"""The timeline: changes per interval, which add up to vote_updates, and its query parameters."""

import uuid
from collections.abc import AsyncIterator
from itertools import accumulate
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import votes_topic
from libs.projection.votes_projection import VotesProjection
from libs.views.valkey.client import Coalescer, connect
from libs.views.valkey.function_loading import load_functions
from libs.views.valkey.settings import ValkeySettings
from libs.views.votes.timeline import MINUTE_MS, Timeline
from services.query import count_answers
from services.query.historical_counts import PastCounts, PastReads
from services.query.timeline_cache import TimelineCache
from services.query.timeline_endpoint import TimelinePage, TimeSpan
from tests.libs.views.random_logs import logs
from tests.libs.views.test_votes_timeline import stretched
from tests.services.query.query_environment import PARTITIONS, Catalogue, QueryEnvironment, contest
from tests.services.query.timeline_reads import (
    PATH,
    START,
    CountingTimeline,
    at,
    count_at,
    minute,
    read,
    snapshots_of,
    song,
    voted,
)
from tests.support.builders.contests import a_removal
from tests.support.clients.vote_views import VoteViews, let_be_whole
from tests.support.clients.voting import code
from tests.support.eventually import eventually
from tests.support.hypothesis_examples import examples

pytestmark = pytest.mark.usefixtures("nothing_is_held")


@pytest.fixture
async def key(env: QueryEnvironment) -> str:
    return await song(env)


@pytest.fixture(scope="module")
async def valkey(servers: Any) -> AsyncIterator[Coalescer]:
    connection = Coalescer(connect(ValkeySettings(valkey_url=servers.addresses.valkey)))
    await load_functions(connection)
    yield connection
    await connection.close()


async def test_the_record_has_exactly_the_documented_members(env: QueryEnvironment, key: str) -> None:
    await env.vote("a", 3, voter="ann")
    await env.vote("b", 2, voter="bob", source="c-paid", anonymous=True)
    env.clock_ms += 2 * MINUTE_MS
    await env.fold(a_removal("v1", voter="ann", contest="song"))
    await env.report("sms", ("A", 10, 4, 1), ("X", 100, 0, 0))
    await env.report("tv", ("A", 1000, 0, 0))
    zero = [0, 0, 0]
    assert await read(env, key, to=minute(3)) == {
        "contest_key": "song",
        "interval": 60,
        "from": minute(0),
        "to": minute(3),
        "updated": (await env.counts(key))["updated"],
        "participants": [
            a_participant("a", [3, 0, 7], c_free=[3, 0, -3], c_paid=zero, sms=[0, 0, 10], tv=[0, 0, 1000]),
            a_participant("b", [2, 0, 0], c_free=zero, c_paid=[2, 0, 0], sms=zero),
        ],
        "count": [5, 0, 7],
        "unique_voter_count": [2, 0, 3],
        "anonymous_voter_count": [1, 0, 1],
        "sources": [
            a_source("c-free", "Free votes", True, [3, 0, -3], [1, 0, -1], zero),
            a_source("c-paid", "Paid votes", True, [2, 0, 0], [1, 0, 0], [1, 0, 0]),
            a_source("sms", "Sms", True, [0, 0, 10], [0, 0, 4], [0, 0, 1]),
            a_source("tv", "Tv", False, [0, 0, 1000], zero, zero),
        ],
    }


def a_participant(key: str, count: list[int], **sources: list[int]) -> dict[str, Any]:
    rows = [{"source": name.replace("_", "-"), "count": column} for name, column in sources.items()]
    return {"participant_key": key, "count": count, "sources": rows}


def a_source(name: str, title: str, in_total: bool, *columns: list[int]) -> dict[str, Any]:
    numbers = zip(("count", "unique_voter_count", "anonymous_voter_count"), columns, strict=True)
    flags = {"is_in_total": in_total, "is_internal": name.startswith("c-")}
    return {"source": name, "title": title} | flags | dict(numbers)


NUMBERS = ("count", "unique_voter_count", "anonymous_voter_count")


def said(record: dict[str, Any]) -> dict[Any, int]:
    """All numbers of a vote count record, but for ratings and zeros."""
    found: dict[Any, int] = {name: record[name] for name in NUMBERS}
    for total in record["total_vote_sources"]:
        found |= {(total["source"], name): total[name] for name in NUMBERS}
    for key, participant in record["participants"].items():
        found[key] = participant["count"]
        for each in participant["vote_sources"]:
            name = key, each["source"]
            found[name] = found.get(name, 0) + each["count"]
    return {name: number for name, number in found.items() if number}


def added_up(record: dict[str, Any]) -> list[dict[Any, int]]:
    """The same at the end of each interval."""
    columns: dict[Any, list[int]] = {name: record[name] for name in NUMBERS}
    for total in record["sources"]:
        columns |= {(total["source"], name): total[name] for name in NUMBERS}
    for participant in record["participants"]:
        columns[participant["participant_key"]] = participant["count"]
        for each in participant["sources"]:
            columns[participant["participant_key"], each["source"]] = each["count"]
    steps = zip(*map(accumulate, columns.values()), strict=True)
    return [{name: number for name, number in zip(columns, step, strict=True) if number} for step in steps]


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    log=st.builds(stretched, logs, st.sampled_from([3_000, 20_000])),
    cuts=st.lists(st.integers(1, 400), max_size=4).map(sorted),
    interval=st.sampled_from([60, 120, 420, 3_600, 86_400]),
    partition=st.integers(0, PARTITIONS - 1),
)
async def test_up_to_any_interval_it_adds_up_to_what_was_counted_by_then(
    valkey: Coalescer, log: list[LogRecord], cuts: list[int], interval: int, partition: int
) -> None:
    namespace = f"t{uuid.uuid4().hex}"
    catalogue = Catalogue(valkey, namespace)
    await catalogue.begin()
    await catalogue.create("contests", "one", contest())
    for key, status in {"a": "approved", "b": "approved", "c": "rejected", "é": "approved"}.items():
        await catalogue.enter("one", key, status=status)
    await catalogue.register("one", "sms", mapping={"x": "a", "y": "é", "1": "a"}, is_in_total=True)
    await catalogue.register("one", "tv", mapping={"y": "b", "x": "c"}, is_in_total=False)
    views = VoteViews(valkey, namespace, PARTITIONS)
    await let_be_whole(views, range(PARTITIONS))
    projection = VotesProjection(votes_topic("t", PARTITIONS), views, None)
    shown = Shown(views, catalogue, Timeline(views))
    start, at, latest_ms = Position("log", 0), 0, 0
    for until in (*cuts, len(log)):
        if piece := log[at:until]:
            await projection.fold(partition, start, piece)
            start, at = Position("log", piece[-1].offset + 1), until
            latest_ms = max(latest_ms, *(record.timestamp_ms for record in piece))
        await shown.agree(interval, latest_ms, {partition: start.offset})
    await valkey.call("DEL", *await valkey.call("KEYS", f"{namespace}:*"))


class Shown:
    """Return the contest as readers are served it."""

    def __init__(self, views: VoteViews, catalogue: Catalogue, timeline: Timeline) -> None:
        self._snapshots = snapshots_of(views, catalogue)
        self._past = PastCounts(timeline, PastReads(0))
        self._timelines = TimelineCache(timeline, PastReads(0))

    async def agree(self, interval: int, latest_ms: int, position: dict[int, int]) -> None:
        """Timeline and counts, at each of some ends of intervals."""
        present = await self._snapshots.get("acme", "one", position)
        first, minutes = await self._timelines.first_minute(present) or 0, interval // 60
        span = TimeSpan(interval, range(first // minutes, latest_ms // 1000 // interval + 1))
        asked = present, span.steps.start * minutes, span.steps.stop * minutes, minutes
        series = await self._timelines.series(*asked)
        page = TimelinePage(present, series, span, None)
        record = orjson.loads(page.answer(present, series).body)
        assert orjson.loads(page.answer(present, series).body) == record, "it can be asked again"
        sums = added_up(record)
        for step in range(0, len(sums), max(1, len(sums) // 8)):
            then = await self._past.as_of(present, (span.steps[step] + 1) * minutes - 1)
            assert sums[step] == said(count_answers.record(then, sources=True)), step
        assert sums[-1] == said(count_answers.record(present, sources=True))


async def test_what_is_asked_for_again_is_fetched_only_as_far_as_it_changed(env: QueryEnvironment) -> None:
    await song(env)
    await voted(env, *range(8))
    timeline, snapshots = CountingTimeline(env.views), snapshots_of(env.views, env.production)
    timelines = TimelineCache(timeline, PastReads(0))

    async def asks(begin: int, until: int) -> tuple[list[int], int]:
        before = timeline.fetched
        present = await snapshots.get("acme", "song", await env.tokens.decode(env.head()))
        series = await timelines.series(present, START + begin, START + until, 1)
        page = TimelinePage(present, series, TimeSpan(60, range(START + begin, START + until)), None)
        record = orjson.loads(page.answer(present, series).body)
        return record["participants"][0]["count"], timeline.fetched - before

    assert await asks(2, 9) == ([1] * 6 + [0], 10)
    assert await asks(2, 9) == ([1] * 6 + [0], 0)
    await voted(env, 7, 8)
    assert await asks(2, 9) == ([1] * 5 + [2, 1], 2)
    assert await asks(4, 6) == ([1, 1], 0)
    await voted(env, 9, 10, 11)
    assert await asks(5, 10) == ([1, 1, 2, 1, 1], 4)
    assert await asks(5, 12) == ([1, 1, 2, 1, 1, 1, 1], 2)
    assert await asks(1, 3) == ([1, 1], 4)


async def test_the_pages_of_a_timeline_hold_all_of_it(env: QueryEnvironment, key: str) -> None:
    extra = [f"p{number}" for number in range(150)]
    for participant in extra:
        await env.production.enter("song", participant)
        await env.vote(participant, voter="ann")
    await voted(env, *range(700))
    record = await read(env, key, to=minute(700))
    assert record["count"] == [151] + [1] * 699
    assert [sum(each["count"]) for each in record["participants"]] == [700, 0] + [1] * 150


async def test_who_takes_part_and_what_ids_mean_is_as_of_now(env: QueryEnvironment, key: str) -> None:
    await voted(env, 0)
    await env.report("sms", ("A", 10, 1, 0))
    await voted(env, 3)
    changed = {"title": "Text", "mapping": {"A": "b"}, "is_in_total": True}
    await env.production.change("vote_sources", "song~sms", changed)
    found = await read(env, key, to=minute(4))
    assert [each["count"] for each in found["participants"]] == [[1, 0, 0, 1], [10, 0, 0, 0]]
    await env.production.change("participants", "b", {"status": "rejected"})
    found = await read(env, key, to=minute(4))
    assert [each["participant_key"] for each in found["participants"]] == ["a"]
    assert (found["count"], found["sources"][2]["count"]) == ([1, 0, 0, 1], [0, 0, 0, 0])


async def test_an_unchanged_timeline_is_not_sent_again(
    env: QueryEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.query.timeline_endpoint.MOST_HELD_S", 1.0)
    key = await song(env)
    await voted(env, 0)
    await read(env, key)
    path = f"{PATH}?to={minute(5)}"
    first = await env.get(path, key)
    again = await env.get(path, key, **{"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    position = (await env.get("/contests/song/vote_updates", key)).headers["tally-position"]
    for answer in (first, again):
        assert answer.headers["cache-control"] == "private, max-age=1"
        assert answer.headers["tally-position"] == position
        assert answer.headers["tally-final"] == "provisional"
    await voted(env, 1)

    async def is_sent_again() -> bool:
        answer = await env.get(path, key, **{"if-none-match": first.headers["etag"]})
        return bool(answer.status_code == 200)

    await eventually(is_sent_again)


async def test_a_swap_of_generations_is_seen_by_both_reads_of_the_past(env: QueryEnvironment, key: str) -> None:
    await voted(env, 0, 1, 2)
    assert (await read(env, key, to=minute(3)))["count"] == [1, 1, 1]
    assert await count_at(env, key, 1) == 2
    await env.swap_in_other_votes()
    await env.vote("b", voter="ann")
    assert (await read(env, key, to=minute(3)))["count"] == [5, 5, 6]
    assert await count_at(env, key, 1) == 10


async def test_a_view_that_is_folded_again_is_not_taken_for_the_past(env: QueryEnvironment, key: str) -> None:
    await voted(env, 0, 1, 2)
    await env.counts(key, position=env.head())
    topic = votes_topic(env.settings.namespace, PARTITIONS)
    partition = topic.partition_of(env.cast("a").voter)
    position = f"{env.views._base(partition)}:g1:position"
    await env.views._valkey.call("HSET", position, "offset", 1)
    timelines = [await env.get(f"{PATH}?from={minute(begin)}&to={minute(3)}", key) for begin in (0, 1)]
    for lost in (*timelines, await at(env, key, 0)):
        assert (lost.status_code, lost.json()["code"]) == (503, "views_unavailable")
    await env.views._valkey.call("HSET", position, "offset", 3)
    assert (await read(env, key, to=minute(3)))["count"] == [1, 1, 1]
    assert await count_at(env, key, 0) == 1


async def test_by_default_the_last_days_are_shown_of_what_is_too_long_for_an_answer(
    env: QueryEnvironment, key: str
) -> None:
    await voted(env, 0, 1_500 * 1_440, 1_501 * 1_440)
    record = await read(env, key, to=minute(1_501 * 1_440 + 1))
    assert (record["interval"], len(record["count"])) == (86_400, 1_500)
    assert (sum(record["count"]), record["count"][-2:]) == (2, [1, 1])


@pytest.mark.parametrize("edge", [{"from": "9998-12-31T23:59:59Z"}, {"to": "0002-01-01T00:00:00Z"}])
async def test_a_span_at_the_edge_of_the_calendar_is_shown(
    env: QueryEnvironment, key: str, edge: dict[str, str]
) -> None:
    for interval in ("420", "86400"):
        assert (await read(env, key, interval=interval, **edge))["count"] == [0]


async def test_by_default_all_is_shown_in_intervals_of_which_there_are_not_too_many(env: QueryEnvironment) -> None:
    key = await song(env, start="2026-09-21T12:00:00Z", end="2026-09-21T16:00:00Z")
    empty = await read(env, key)
    assert (empty["from"], empty["to"]) == ("2026-09-21T12:00:00.000000Z", "2026-09-21T16:01:00.000000Z")
    for votes, (number, expected) in enumerate(((0, 60), (7_000, 300), (200_000, 21_600)), 1):
        await voted(env, number)
        record = await read(env, key)
        assert (record["interval"], sum(record["count"])) == (expected, votes)
        assert record["from"] <= minute(0) < record["to"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("interval=0", "interval must be"),
        ("interval=90", "multiple of 60"),
        ("interval=86460", "interval must be"),
        ("interval=-60", "interval must be"),
        ("interval=1e2", "interval must be"),
        ("interval=", "interval must be"),
        ("from=yesterday", "from must be an RFC 3339"),
        ("to=2026-13-01T00:00:00Z", "to is no valid date"),
        ("from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "from must be before to"),
        ("from=0001-12-31T23:59:59Z", "from must be in the years"),
        ("to=9999-01-01T00:00:00Z", "to must be in the years"),
    ],
)
async def test_a_bad_parameter_is_named(env: QueryEnvironment, key: str, query: str, said: str) -> None:
    answer = await env.get(f"{PATH}?{query}", key)
    assert code(answer) == (422, "validation_failed")
    assert said in answer.json()["detail"]
    assert answer.json()["errors"][0]["parameter"] == query.partition("=")[0]


async def test_what_would_be_too_much_is_refused_with_the_way_out(env: QueryEnvironment, key: str) -> None:
    for query, many in (
        ("from=2026-01-01T00:00:00Z&to=2026-01-02T01:00:01Z&interval=60", "in 1501 intervals"),
        ("from=0002-01-01T00:00:00Z", "intervals, more than the 1500 allowed"),
    ):
        answer = await env.get(f"{PATH}?{query}", key)
        assert code(answer) == (422, "validation_failed")
        assert many in answer.json()["detail"]
        assert "request a longer interval" in answer.json()["detail"]


async def test_some_participants_alone_may_be_asked_for(env: QueryEnvironment, key: str) -> None:
    await env.vote("a", 1)
    await env.vote("b", 5)
    whole = await read(env, key, to=minute(1))
    some = await read(env, key, to=minute(1), participant=["b", "nobody"])
    assert some == whole | {"participants": whole["participants"][1:]}
