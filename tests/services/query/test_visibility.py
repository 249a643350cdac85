"""No read path reveals a hidden count or rank: no number, order or cut-off."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import httpx
import pytest

from tests.services.query.query_environment import QueryEnvironment, contest
from tests.services.query.streams.stream_clients import first_events
from tests.support.openapi import read_tracked

TIMES: Final[dict[str, dict[str, str]]] = {
    "announced": {"start": "2099-01-01T00:00:00Z", "end": "2100-01-01T00:00:00Z"},
    "running": {"end": "2100-01-01T00:00:00Z"},
    "finished": {"end": "2021-01-01T00:00:00Z"},
}
HIDDEN: Final[dict[str, set[str]]] = {
    "shown": set(),
    "hidden_until_vote": {"announced", "running"},
    "hidden_until_end": {"announced", "running"},
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


Read = Callable[[QueryEnvironment, str], Awaitable[Seen | None]]
"""Return the answer to a key; None if it is refused."""


def _entries(participants: list[dict[str, Any]], *names: str) -> list[tuple[str, Any]]:
    numbers = [tuple(entry[name] for name in names) for entry in participants]
    return [
        (entry["participant_key"], found[0] if len(found) == 1 else found)
        for entry, found in zip(participants, numbers, strict=True)
    ]


async def vote_updates(env: QueryEnvironment, key: str) -> Seen | None:
    answer = await env.get("/contests/song/vote_updates/?sources=true", key)
    if answer.status_code == 403:
        return None
    return _vote_count(answer.json())


def _vote_count(record: dict[str, Any]) -> Seen:
    return Seen([(name, entry["count"]) for name, entry in record["participants"].items()], [record["count"]])


async def past_updates(env: QueryEnvironment, key: str) -> Seen | None:
    found = []
    for at in ("2026-09-21T14:14:00Z", "2099-01-01T00:00:00Z"):
        answer = await env.get(f"/contests/song/vote_updates/?sources=true&at={at}", key)
        found.append(None if answer.status_code == 403 else _vote_count(answer.json()))
    assert found[0] == found[1]
    return found[0]


async def timeline(env: QueryEnvironment, key: str) -> Seen | None:
    answer = await env.get("/contests/song/timeline?to=2026-09-21T14:14:00Z", key)
    if answer.status_code == 403:
        return None
    record = answer.json()
    return Seen(
        [(entry["participant_key"], sum(entry["count"])) for entry in record["participants"]],
        [sum(record["count"])],
    )


async def legacy_contest(env: QueryEnvironment, key: str) -> Seen:
    return _legacy_contest((await env.legacy("/legacy/contests/song", key)).json())


async def legacy_contests(env: QueryEnvironment, key: str) -> Seen:
    [shape] = (await env.legacy("/legacy/brands/acme/contests", key)).json()["contests"]
    return _legacy_contest(shape)


def _legacy_contest(shape: dict[str, Any]) -> Seen:
    return Seen(
        _entries(shape["participants"], "vote_count"), [shape["total_vote_count"], shape["unique_voter_count"]]
    )


async def legacy_participants(env: QueryEnvironment, key: str) -> Seen:
    answer = await env.legacy("/legacy/contests/song/participants", key)
    return Seen(_entries(answer.json()["participants"], "vote_count", "rater_count"), [])


async def legacy_participant(env: QueryEnvironment, key: str) -> Seen:
    shape = (await env.legacy("/legacy/participants/b", key)).json()
    return Seen(_entries([shape], "vote_count", "rater_count"), [])


async def participants(env: QueryEnvironment, key: str) -> Seen:
    answer = await env.get("/contests/song/participants", key)
    return Seen(_entries(answer.json()["data"], "vote_count", "rater_count"), [])


async def participant(env: QueryEnvironment, key: str) -> Seen:
    record = (await env.get("/participants/b", key)).json()
    return Seen(_entries([record], "vote_count", "rater_count"), [])


async def public_results(env: QueryEnvironment, _: str) -> Seen:
    return _public((await env.client.get("/public/contests/song/results")).json())


def _public(record: dict[str, Any]) -> Seen:
    return Seen(_entries(record["participants"], "count", "rank", "share"), [record["count"]])


async def counts_stream(env: QueryEnvironment, key: str) -> Seen | None:
    status, events = await first_events(env, "/contests/song/vote_updates/stream?sources=true", key)
    if status == 403:
        return None
    hidden = events[0].data["hidden"]
    assert [event.name for event in events] == (["phase"] if hidden else ["phase", "counts"])
    return None if hidden else _vote_count(events[1].data)


async def public_stream(env: QueryEnvironment, _: str) -> Seen:
    status, (phase, results) = await first_events(env, "/public/contests/song/results/stream")
    assert (status, phase.name, results.name) == (200, "phase", "results")
    assert phase.data["hidden"] is (results.data["count"] is None)
    return _public(results.data)


class Expected(NamedTuple):
    """A read, and what it says where the counts are shown and where they are hidden."""

    read: Read
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

READS: Final[dict[str, Expected]] = {
    "/contests/{contest_key}/vote_updates": Expected(vote_updates, *VOTE_COUNT),
    "/contests/{contest_key}/vote_updates/stream": Expected(counts_stream, *VOTE_COUNT),
    "/contests/{contest_key}/timeline": Expected(timeline, *VOTE_COUNT),
    "/contests/{contest_key}/participants": Expected(participants, *ALL),
    "/participants/{participant_key}": Expected(participant, *ONE),
    "/legacy/contests/{contest_id}": Expected(legacy_contest, *LEGACY_CONTEST),
    "/legacy/brands/{brand_id}/contests": Expected(legacy_contests, *LEGACY_CONTEST),
    "/legacy/contests/{contest_id}/participants": Expected(legacy_participants, *ALL),
    "/legacy/participants/{participant_key}": Expected(legacy_participant, *ONE),
    "/public/contests/{contest_key}/results": Expected(public_results, *PUBLIC),
    "/public/contests/{contest_key}/results/stream": Expected(public_stream, *PUBLIC),
}
"""Every address by which counts, or an order made of them, leave. A contest lists its best two."""
PAST: Final = {"/contests/{contest_key}/vote_updates?at=": Expected(past_updates, *VOTE_COUNT)}

WITHOUT_COUNTS: Final[dict[str, str]] = {
    "/contests": "records",
    "/contests/{contest_key}": "a record",
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
    for several, one in (
        ("apps", "app"),
        ("articles", "article"),
        ("conventions", "convention"),
        ("feeds", "feed"),
        ("master_shops", "master_shop"),
        ("shops", "shop"),
        ("surveys", "survey"),
    )
    for path in (f"/{several}", f"/{several}/{{{one}_key}}")
}


async def song(env: QueryEnvironment, **config: Any) -> None:
    """Four participants, of whom b has most votes and d, rejected since, had more."""
    rules = {"participant_order": "vote_count", "limit_result_amount": 2} | config
    await env.production.create("contests", "song", contest(**rules))
    for participant in "abcd":
        await env.production.enter("song", participant)
    await env.production.change("participants", "d", {"status": "rejected", "title": "D"}, "song")


async def vote(env: QueryEnvironment) -> list[str]:
    """Return the positions at which the votes are in."""
    return [
        await env.vote(participant, count, voter=f"fan of {participant}")
        for participant, count in {"a": 1, "b": 5, "c": 3, "d": 7}.items()
    ]


@pytest.mark.parametrize("phase", TIMES)
@pytest.mark.parametrize("visibility", HIDDEN)
async def test_each_reader_sees_what_visibility_phase_and_key_allow(
    env: QueryEnvironment, visibility: str, phase: str
) -> None:
    await song(env, vote_visibility=visibility, **TIMES[phase])
    await vote(env)
    hides = phase in HIDDEN[visibility]
    for name, permissions in KEYS.items():
        key = await env.production.key(permissions=permissions)
        for path, (read, shown, hidden) in (READS | PAST).items():
            hidden_here = hides if path.startswith("/public") else name == "editor" or (hides and name == "reader")
            assert await read(env, key) == (hidden if hidden_here else shown), (path, name)


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
    await env.production.register("song", "sms", mapping={"A": "a"})
    owner, reader = [await env.production.key(permissions=KEYS[name]) for name in ("owner", "reader")]
    before = await answers_to(env, reader)
    positions = [*await vote(env), await env.report("sms", ("A", 10, 5, 2))]
    assert (await env.counts(owner, position="&min_position=".join(positions)))["count"] == 19
    assert await answers_to(env, reader) == before


async def test_a_change_of_visibility_holds_from_the_next_read_on(env: QueryEnvironment) -> None:
    await song(env)
    await vote(env)
    key = await env.production.key(permissions=KEYS["reader"])
    for visibility in ("hidden", "shown", "hidden"):
        rules = {"participant_order": "vote_count", "limit_result_amount": 2, "vote_visibility": visibility}
        await env.production.change("contests", "song", contest(**rules), "song")
        for path, (read, shown, hidden) in READS.items():
            assert await read(env, key) == (shown if visibility == "shown" else hidden), path


@pytest.mark.parametrize("phase", TIMES)
async def test_a_result_that_is_released_by_hand_is_hidden_from_the_end_until_then(
    env: QueryEnvironment, phase: str
) -> None:
    await song(env, result_release="by_hand", **TIMES[phase])
    await vote(env)
    key = await env.production.key(permissions=KEYS["reader"])
    for path, (read, shown, hidden) in READS.items():
        assert await read(env, key) == (hidden if phase == "finished" else shown), path
    await env.production.create("shows", "song", {"is_released": True})
    for path, (read, shown, _) in READS.items():
        assert await read(env, key) == shown, path
    await env.production.change("shows", "song", {"is_released": False}, "song")
    for path, (read, shown, hidden) in READS.items():
        assert await read(env, key) == (hidden if phase == "finished" else shown), path


async def test_a_rejected_participant_has_no_votes_anywhere_until_approved_again(env: QueryEnvironment) -> None:
    await song(env, limit_result_amount=-1)
    await vote(env)
    key = await env.production.key(permissions=KEYS["owner"])
    for status, votes in (("rejected", 0), ("approved", 7), ("rejected", 0)):
        await env.production.change("participants", "d", {"status": status, "title": "D"}, "song")
        for path, (read, shown, _) in READS.items():
            seen = await read(env, key)
            assert seen is not None
            found = dict(seen.entries)
            if shown in ALL or shown in ONE:
                assert found.get("d", (votes,))[0] == votes, path
                continue
            assert ("d" in found) is (votes > 0), path
            assert seen.others[0] == 9 + votes, path


def test_every_read_of_the_api_is_known_to_show_counts_or_not_to() -> None:
    reads = {path for path, methods in read_tracked()["paths"].items() if "get" in methods}
    assert reads == READS.keys() | WITHOUT_COUNTS.keys()


async def answers_to(env: QueryEnvironment, key: str) -> list[Any]:
    """Status, body and entity tag of every read, but for what names the request or says what time it is."""
    found: list[httpx.Response] = []
    for path in (
        "/contests/song/participants",
        "/participants/b",
        "/contests/song/vote_updates?sources=true",
        "/contests/song/vote_updates?sources=true&at=2026-09-21T14:13:00Z",
        "/contests/song/timeline?to=2026-09-21T14:14:00Z",
        "/public/contests/song/results",
    ):
        found.append(await env.get(path, key))
    for path in ("contests/song", "brands/acme/contests", "contests/song/participants", "participants/b"):
        found.append(await env.legacy(f"/legacy/{path}", key))
    streams = [
        (await first_events(env, path, key))[1]
        for path in (
            "/contests/song/vote_updates/stream",
            "/contests/song/vote_updates/stream?sources=true&details=true",
            "/public/contests/song/results/stream",
        )
    ]
    bodies = [answer.json() for answer in found]
    for body in bodies:
        body.pop("request_id", None)
    return [
        (answer.status_code, body, answer.headers.get("etag")) for answer, body in zip(found, bodies, strict=True)
    ] + [
        (event.name, event.id, {name: value for name, value in event.data.items() if name != "server_time"})
        for events in streams
        for event in events
    ]
