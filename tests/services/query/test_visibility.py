"""No read path reveals a hidden count or rank: no number, order or cut-off."""

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from libs.catalogue.resource_table import RESOURCES
from libs.tally.time_conversion import timestamp
from services.query import public_contest, public_results, snapshot_cache
from tests.services.query.query_environment import QueryEnvironment, contest
from tests.services.query.streams.stream_clients import first_events
from tests.support.models.openapi import read_tracked

TIMES: Final[dict[str, dict[str, str]]] = {
    "announced": {"start": "2099-01-01T00:00:00Z", "end": "2100-01-01T00:00:00Z"},
    "running": {"end": "2100-01-01T00:00:00Z"},
    "ended": {"end": "2021-01-01T00:00:00Z"},
    "closed": {"end": "2021-01-01T00:00:00Z"},
}
"""A contest that has `ended` by the reader's clock, which may be ahead, is not `closed` yet."""
HIDDEN: Final[dict[str, set[str]]] = {
    "shown": set(),
    "hidden_until_vote": {"announced", "running", "ended"},
    "hidden_until_end": {"announced", "running", "ended"},
    "hidden": set(TIMES),
}
"""The phases in which each `vote_visibility` hides the counts from all who have no special right to see them."""
KEYS: Final[dict[str, tuple[str, ...]]] = {
    "owner": ("content:read", "results:read", "results:read_hidden"),
    "reader": ("content:read", "results:read"),
    "editor": ("content:read",),
}
"""`owner` sees every count, `reader` those that are not hidden, `editor` none."""


class Seen(NamedTuple):
    """Counts of a read path: participants in its order with their numbers, and other numbers."""

    entries: list[tuple[str, Any]]
    others: list[Any]


def entries(participants: list[dict[str, Any]], *names: str) -> list[tuple[str, Any]]:
    numbers = [tuple(entry[name] for name in names) for entry in participants]
    return [
        (entry["participant_key"], found[0] if len(found) == 1 else found)
        for entry, found in zip(participants, numbers, strict=True)
    ]


def vote_count(record: dict[str, Any]) -> Seen:
    return Seen([(name, entry["count"]) for name, entry in record["participants"].items()], [record["count"]])


def timeline(record: dict[str, Any]) -> Seen:
    sums = [(entry["participant_key"], sum(entry["count"])) for entry in record["participants"]]
    return Seen(sums, [sum(record["count"])])


def legacy_contest(shape: dict[str, Any]) -> Seen:
    others = [shape["total_vote_count"], shape["unique_voter_count"]]
    return Seen(entries(shape["participants"], "vote_count"), others)


def legacy_contests(record: dict[str, Any]) -> Seen:
    [shape] = record["contests"]
    return legacy_contest(shape)


def legacy_participants(record: dict[str, Any]) -> Seen:
    return Seen(entries(record["participants"], "vote_count", "rater_count"), [])


def participants(record: dict[str, Any]) -> Seen:
    return Seen(entries(record["data"], "vote_count", "rater_count"), [])


def participant(record: dict[str, Any]) -> Seen:
    return Seen(entries([record], "vote_count", "rater_count"), [])


def results_of_all(record: dict[str, Any]) -> Seen:
    return Seen(entries(record["participants"], "count", "rank", "share"), [record["count"]])


def counts_stream(events: dict[str, Any]) -> Seen | None:
    hidden = events["phase"]["hidden"]
    assert list(events) == (["phase"] if hidden else ["phase", "counts"])
    return None if hidden else vote_count(events["counts"])


def public_stream(events: dict[str, Any]) -> Seen:
    assert list(events) == ["phase", "results"]
    assert events["phase"]["hidden"] is (events["results"]["count"] is None)
    return results_of_all(events["results"])


class Read(NamedTuple):
    """A read path, and what it says where counts are shown and where they are hidden; None if it is refused."""

    url: str
    parse: Callable[[Any], Seen | None]
    shown: Seen
    hidden: Seen | None


LEGACY_CONTEST: Final = (
    Seen([("b", 5), ("c", 3)], [9, 4]),
    Seen([("a", None), ("b", None)], [None, None]),
)
ALL: Final = (
    Seen([("d", (0, 0)), ("c", (3, 1)), ("b", (5, 1)), ("a", (1, 1))], []),
    Seen([(key, (None, None)) for key in "dcba"], []),
)
ONE: Final = (Seen([("b", (5, 1))], []), Seen([("b", (None, None))], []))

VOTE_COUNT: Final = Seen([("a", 1), ("b", 5), ("c", 3)], [9]), None
PUBLIC: Final = (
    Seen([("b", (5, 1, 5 / 9)), ("c", (3, 2, 3 / 9))], [9]),
    Seen([("a", (None, None, None)), ("b", (None, None, None))], [None]),
)

SONG, COUNTS, RESULTS = "/contests/song", "/contests/song/vote_updates", "/public/contests/song/results"
READS: Final[dict[str, Read]] = {
    "/contests/{contest_key}/vote_updates": Read(f"{COUNTS}/?sources=true", vote_count, *VOTE_COUNT),
    "/contests/{contest_key}/vote_updates/stream": Read(
        f"{COUNTS}/stream?sources=true", counts_stream, *VOTE_COUNT
    ),
    "/contests/{contest_key}/timeline": Read(f"{SONG}/timeline?to=2026-09-21T14:14:00Z", timeline, *VOTE_COUNT),
    "/contests/{contest_key}/participants": Read(f"{SONG}/participants", participants, *ALL),
    "/participants/{participant_key}": Read("/participants/b", participant, *ONE),
    "/legacy/contests/{contest_id}": Read(f"/legacy{SONG}", legacy_contest, *LEGACY_CONTEST),
    "/legacy/brands/{brand_id}/contests": Read("/legacy/brands/acme/contests", legacy_contests, *LEGACY_CONTEST),
    "/legacy/contests/{contest_id}/participants": Read(f"/legacy{SONG}/participants", legacy_participants, *ALL),
    "/legacy/participants/{participant_key}": Read("/legacy/participants/b", participant, *ONE),
    "/public/contests/{contest_key}/results": Read(RESULTS, results_of_all, *PUBLIC),
    "/public/contests/{contest_key}/results/stream": Read(f"{RESULTS}/stream", public_stream, *PUBLIC),
}
"""Every address by which counts, or an order made of them, leave. A contest lists its best two."""
PAST: Final = {
    f"/contests/{{contest_key}}/vote_updates?at={at}": Read(
        f"{COUNTS}/?sources=true&at={at}", vote_count, *VOTE_COUNT
    )
    for at in ("2026-09-21T14:14:00Z", "2099-01-01T00:00:00Z")
}

WITHOUT_COUNTS: Final[dict[str, str]] = {
    "/": "addresses",
    "/keys": "keys of the account, without their texts",
    "/keys/{key_id}": "one of them",
    "/public/contests/{contest_key}": "a contest and its participants by number",
    "/contests/{contest_key}/certificate": "sealed counts, refused to those whom they are hidden from",
    "/contests/{contest_key}/reopen": "a closed contest's counts, refused to those whom they are hidden from",
    "/contests/{contest_key}/allowance": "what one voter used",
    "/contests/{contest_key}/votes": "one voter's votes",
    "/contests/{contest_key}/votes/{vote_id}": "one vote",
    "/account": "settings",
    "/contests/{contest_key}/vote_sources": "registrations",
    "/contests/{contest_key}/show": "what screens show, without counts",
    "/contests/{contest_key}/show/stream": "what the show allows: tests/e2e/test_show_screens.py",
    "/contests/{contest_key}/links": "addresses of screens",
    "/contests/{contest_key}/vote_sources/{source}": "a registration",
    "/api/users/{user_id}/purchases": "what one user bought",
    "/api/purchases/{purchase_key}": "one purchase",
    "/operations/purchases/refunds": "purchases, to an operator",
    "/operations/status": "how many records are folded, to an operator",
    "/conventions/{convention_key}/timeslots": "records",
    "/files/{file_key}": "a record",
    "/files/{file_key}/content": "what the account uploaded",
    "/images/{image_key}": "a record",
    "/media/image/{image_id}": "a picture",
    "/legacy/images/{image_id}": "a record",
    "/legacy/dev/v2/articlefeeds": "as the articles in them",
    "/legacy/dev/v2/articlefeeds/{feed_key}": "the same",
    "/legacy/v2/feedpages/{page_key}": "the same",
    "/livez": "nothing of any account",
    "/metrics": "figures of a process, never of a contest",
    "/readyz": "dependencies",
    "/asyncapi": "a description",
    "/timeslots/{timeslot_key}": "a record",
    "/legacy/v2/articles": "what it embeds is shown as the contests' and participants' own reads show it",
    "/legacy/v2/articles/{article_key}": "the same",
    "/legacy/dev/v2/conventions": "records",
    "/legacy/dev/v2/conventions/{convention_key}": "a record",
    "/legacy/dev/v2/conventions/{convention_key}/timeslots": "records",
    "/legacy/dev/v2/timeslots/{timeslot_key}": "a record",
    "/dashboard/session": "whose it is",
} | {
    path: "records of a resource without votes"
    for name in ("apps", "articles", "contests", "conventions", "feeds", "master_shops", "shops", "surveys")
    for path in (f"/{name}", f"/{name}/{{{RESOURCES[name].singular}_key}}")
}


BEST_TWO: Final = {"participant_order": "vote_count", "limit_result_amount": 2}


async def song(env: QueryEnvironment, **config: Any) -> None:
    """Four participants: b has most votes, d, rejected since, had more, and those of a are text messages."""
    await env.production.create("contests", "song", contest(**BEST_TWO | config))
    await env.production.register("song", "sms", mapping={"A": "a"})
    for participant in "abcd":
        await env.production.enter("song", participant)
    await env.production.change("participants", "d", {"status": "rejected", "title": "D"})


def closed(seq: int, **config: Any) -> dict[str, Any]:
    """The contest's record after closing number `seq`, before which all others were reopened."""
    sms = {"title": "Sms", "is_in_total": True, "mode": "cumulative", "mapping": {"A": "a"}}
    sources = {"sms": sms | {"retired": False, "registered": 1}}
    participants = [[key, "approved", None] for key in "abc"] + [["d", "rejected", None]]
    closing = {"seq": seq, "end": 1, "title": "Song", "participants": participants, "sources": sources}
    return contest(**BEST_TWO | config) | {"closing": closing, "reopened": seq - 1}


async def begin(env: QueryEnvironment, phase: str, **config: Any) -> None:
    """The song in a phase of `TIMES`."""
    await song(env, **TIMES[phase], **config)
    if phase == "closed":
        await env.production.change("contests", "song", closed(1, **TIMES[phase], **config))


async def vote(env: QueryEnvironment) -> list[str]:
    """Return the positions at which the votes are in."""
    reported = await env.report("sms", ("A", 1, 1, 0))
    return [
        reported,
        *[await env.vote(key, count, voter=f"fan of {key}") for key, count in (("b", 5), ("c", 3), ("d", 7))],
    ]


async def answer(env: QueryEnvironment, url: str, key: str) -> tuple[int, Any, Any]:
    """Status, body and entity tag, but for the request's id and the time; of a stream the first events."""
    caller = None if url.startswith("/public") else key
    if "/stream" in url:
        status, events = await first_events(env, url, caller)
        found = {event.name: event.data for event in events}
        for data in found.values():
            data.pop("server_time", None)
        return status, found, [event.id for event in events]
    got = await (env.legacy(url, key) if url.startswith("/legacy") else env.get(url, caller or ""))
    body = got.json()
    body.pop("request_id", None)
    return got.status_code, body, got.headers.get("etag")


async def seen(env: QueryEnvironment, read: Read, key: str) -> Seen | None:
    status, body, _ = await answer(env, read.url, key)
    return None if status == 403 else read.parse(body)


async def assert_reads(env: QueryEnvironment, key: str, *, hidden: bool) -> None:
    for path, read in READS.items():
        assert await seen(env, read, key) == (read.hidden if hidden else read.shown), path


@pytest.mark.parametrize("phase", TIMES)
@pytest.mark.parametrize("visibility", HIDDEN)
async def test_each_reader_sees_what_visibility_phase_and_key_allow(
    env: QueryEnvironment, visibility: str, phase: str
) -> None:
    await begin(env, phase, vote_visibility=visibility)
    await vote(env)
    hides = phase in HIDDEN[visibility]
    for name, permissions in KEYS.items():
        key = await env.production.key(permissions=permissions)
        for path, read in (READS | PAST).items():
            hidden_here = hides if path.startswith("/public") else name == "editor" or (hides and name == "reader")
            assert await seen(env, read, key) == (read.hidden if hidden_here else read.shown), (path, name)


async def test_a_refusal_says_what_hides_the_counts(env: QueryEnvironment) -> None:
    await song(env, vote_visibility="hidden_until_end")
    answers = [
        (await env.get("/contests/song/vote_updates", await env.production.key(permissions=KEYS[name]))).json()
        for name in ("reader", "editor")
    ]
    assert [answer["code"] for answer in answers] == ["results_hidden", "forbidden"]
    assert answers[0]["vote_visibility"] == "hidden_until_end"
    assert answers[1]["permission"] == "results:read"


async def test_a_hidden_answer_is_the_same_before_and_after_votes(env: QueryEnvironment) -> None:
    await song(env, vote_visibility="hidden_until_vote")
    owner, reader = [await env.production.key(permissions=KEYS[name]) for name in ("owner", "reader")]
    urls = [*(read.url for read in (READS | PAST).values()), f"{COUNTS}/stream?sources=true&details=true"]
    before = [await answer(env, url, reader) for url in urls]
    positions = await vote(env)
    assert (await env.counts(owner, position="&min_position=".join(positions)))["count"] == 9
    assert [await answer(env, url, reader) for url in urls] == before


async def test_a_change_of_visibility_holds_from_the_next_read_on(env: QueryEnvironment) -> None:
    await song(env)
    await vote(env)
    key = await env.production.key(permissions=KEYS["reader"])
    for visibility in ("hidden", "shown", "hidden"):
        await env.production.change("contests", "song", contest(**BEST_TWO | {"vote_visibility": visibility}))
        await assert_reads(env, key, hidden=visibility == "hidden")


@pytest.mark.parametrize("phase", TIMES)
async def test_a_result_that_is_released_by_hand_is_hidden_from_the_end_until_then(
    env: QueryEnvironment, phase: str
) -> None:
    is_over = phase in ("ended", "closed")
    await begin(env, phase, result_release="by_hand")
    await vote(env)
    key = await env.production.key(permissions=KEYS["reader"])
    await assert_reads(env, key, hidden=is_over)
    await env.production.create("shows", "song", {"is_released": True})
    await assert_reads(env, key, hidden=False)
    await env.production.change("shows", "song", {"is_released": False})
    await assert_reads(env, key, hidden=is_over)


async def test_a_reopening_ends_the_show_with_its_release(env: QueryEnvironment) -> None:
    rules = {"result_release": "by_hand", "vote_visibility": "hidden_until_end"}
    shown = {"state": "result", "is_released": True}
    await begin(env, "closed", **rules)
    await vote(env)
    key = await env.production.key(permissions=KEYS["reader"])
    screen = "/contests/song/show/stream"

    async def is_on_screens() -> bool:
        _, events, _ = await answer(env, screen, key)
        return "board" in events

    await env.production.create("shows", "song", shown)
    await assert_reads(env, key, hidden=False)
    assert await is_on_screens()
    again = contest(**BEST_TWO | rules | TIMES["running"]) | {"reopened": 1}
    for reopened_or_closed in (again, closed(2, **rules | TIMES["closed"])):
        await env.production.change("contests", "song", reopened_or_closed)
        await assert_reads(env, key, hidden=True)
        assert not await is_on_screens()
    await env.production.change("shows", "song", shown | {"reopened": 1})
    await assert_reads(env, key, hidden=False)
    assert await is_on_screens()


async def test_a_contest_is_published_by_the_voting_clock_not_by_one_that_is_ahead(
    env: QueryEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def public_reads() -> list[int]:
        paths = "/public/contests/song", RESULTS, f"{RESULTS}/stream"
        return [(await answer(env, path, ""))[0] for path in paths]

    await song(env)
    record = contest() | {"publish": timestamp(snapshot_cache.now() + 1_800 * 1_000_000)}
    await env.production.change("contests", "song", record)
    assert await public_reads() == [404, 404, 404]
    for module in (snapshot_cache, public_results, public_contest):
        monkeypatch.setattr(module, "now", lambda: time.time_ns() // 1000 + 3_600 * 1_000_000)
    assert await public_reads() == [404, 404, 404]
    await env.production.change("contests", "song", contest())
    assert await public_reads() == [200, 200, 200]


async def test_a_rejected_participant_has_no_votes_anywhere_until_approved_again(env: QueryEnvironment) -> None:
    await song(env, limit_result_amount=-1)
    await vote(env)
    key = await env.production.key(permissions=KEYS["owner"])
    for status, votes in (("rejected", 0), ("approved", 7), ("rejected", 0)):
        await env.production.change("participants", "d", {"status": status, "title": "D"})
        for path, read in READS.items():
            record = await seen(env, read, key)
            assert record is not None
            found = dict(record.entries)
            if read.shown in ALL or read.shown in ONE:
                assert found.get("d", (votes,))[0] == votes, path
                continue
            assert ("d" in found) is (votes > 0), path
            assert record.others[0] == 9 + votes, path


def test_every_read_of_the_api_is_known_to_show_counts_or_not_to() -> None:
    reads = {path for path, methods in read_tracked()["paths"].items() if "get" in methods}
    assert reads == READS.keys() | WITHOUT_COUNTS.keys()
