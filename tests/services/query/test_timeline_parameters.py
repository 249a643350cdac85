"""Query parameters of the timeline: default and longest spans, participants, and bad values."""

import pytest

from tests.services.query.query_environment import QueryEnvironment
from tests.services.query.timeline_reads import PATH, minute, read, song, voted

pytestmark = pytest.mark.usefixtures("nothing_is_held")


async def test_by_default_the_last_days_are_shown_of_what_is_too_long_for_an_answer(env: QueryEnvironment) -> None:
    key = await song(env)
    await voted(env, 0, 1_500 * 1_440, 1_501 * 1_440)
    record = await read(env, key, to=minute(1_501 * 1_440 + 1))
    assert (record["interval"], len(record["count"])) == (86_400, 1_500)
    assert (sum(record["count"]), record["count"][-2:]) == (2, [1, 1])


@pytest.mark.parametrize("edge", [{"from": "9998-12-31T23:59:59Z"}, {"to": "0002-01-01T00:00:00Z"}])
async def test_a_span_at_the_edge_of_the_calendar_is_shown(env: QueryEnvironment, edge: dict[str, str]) -> None:
    key = await song(env)
    for interval in ("420", "86400"):
        assert (await read(env, key, interval=interval, **edge))["count"] == [0]


async def test_by_default_all_is_shown_in_intervals_of_which_there_are_not_too_many(env: QueryEnvironment) -> None:
    key = await song(env, start="2026-09-21T12:00:00Z", end="2026-09-21T16:00:00Z")
    empty = await read(env, key)
    assert (empty["from"], empty["to"]) == ("2026-09-21T12:00:00.000000Z", "2026-09-21T16:01:00.000000Z")
    found = []
    for number, expected in ((0, 60), (7_000, 300), (200_000, 21_600)):
        await voted(env, number)
        record = await read(env, key)
        found.append(record["interval"])
        assert (record["interval"], sum(record["count"]), len(found)) == (
            expected,
            len(found),
            len(record["count"]) and len(found),
        )
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
async def test_a_bad_parameter_is_named(env: QueryEnvironment, query: str, said: str) -> None:
    answer = await env.get(f"{PATH}?{query}", await song(env))
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
    assert said in answer.json()["detail"]
    assert answer.json()["errors"][0]["parameter"] == query.partition("=")[0]


async def test_what_would_be_too_much_is_refused_with_the_way_out(env: QueryEnvironment) -> None:
    key = await song(env)
    for query, many in (
        ("from=2026-01-01T00:00:00Z&to=2026-01-02T01:00:01Z&interval=60", "1501 intervals"),
        ("from=0002-01-01T00:00:00Z", "intervals, more than the 1500 allowed"),
    ):
        answer = await env.get(f"{PATH}?{query}", key)
        assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed")
        assert many in answer.json()["detail"]
        assert "request a longer interval" in answer.json()["detail"]


async def test_some_participants_alone_may_be_asked_for(env: QueryEnvironment) -> None:
    key = await song(env)
    await env.vote("a", 1)
    await env.vote("b", 5)
    whole = await read(env, key, to=minute(1))
    some = await read(env, key, to=minute(1), participant=["b", "nobody"])
    assert some == whole | {"participants": whole["participants"][1:]}
