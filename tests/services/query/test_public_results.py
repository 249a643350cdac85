"""The public results: without a key, cacheable, and for voters first if the contest says so."""

import time
from typing import Any

import httpx
import pytest

from libs.contracts.pseudonyms import receipt
from libs.storage.object_store import open_store
from libs.storage.secrets import server_secret
from libs.tally.time_conversion import timestamp
from services.query.public_results import for_all, shared_for
from tests.services.query.query_environment import QueryEnvironment, closed_contest, contest, song
from tests.services.query.test_visibility import HIDDEN, TIMES
from tests.support.builders.contests import NOW, a_contest
from tests.support.clients.voting import code
from tests.support.eventually import eventually

PATH = "/public/contests/song/results"


async def results(env: QueryEnvironment) -> dict[str, Any]:
    found: dict[str, Any] = await env.read(PATH)
    return found


async def given_receipt(env: QueryEnvironment, contest: str = "song", vote_id: str = "v1") -> str:
    """As ingestion gives it to a voter."""
    key = await server_secret(open_store(env.settings.storage_url), "receipts")
    return receipt(key, contest, "voter", vote_id)


def keys(found: dict[str, Any]) -> list[str]:
    return [entry["participant_key"] for entry in found["participants"]]


def column(found: dict[str, Any], name: str) -> list[Any]:
    return [entry[name] for entry in found["participants"]]


async def test_the_record_has_exactly_the_documented_members_also_before_any_vote(env: QueryEnvironment) -> None:
    key = await song(env, "a")
    await env.production.enter("song", "b", title="Ben", image_key="i1")
    expected: dict[str, Any] = {
        "contest_key": "song",
        "phase": "running",
        "final": False,
        "corrections": [],
        "participants": [
            {"participant_key": "a", "title": "A", "image": None, "rank": 1, "count": 0, "share": 0},
            {"participant_key": "b", "title": "Ben", "image": {"key": "i1"}, "rank": 1, "count": 0, "share": 0},
        ],
        "count": 0,
        "updated": "2026-09-21T14:13:21.000000Z",
    }
    assert await results(env) == expected
    await env.vote("b", 3)
    await env.counts(key, position=await env.vote("a", 1))
    a, b = expected["participants"]
    voted = [a | {"rank": 2, "count": 1, "share": 0.25}, b | {"count": 3, "share": 0.75}]
    when = "2026-09-21T14:13:20.001000Z"
    assert await results(env) == expected | {"participants": voted, "count": 4, "updated": when}


@pytest.mark.parametrize(
    ("order", "plain", "arranged"),
    [("participated", "abcd", "dbac"), ("running_number", "abcd", "dbac"), ("vote_count", "bdca", "dbca")],
)
async def test_ties_share_a_rank_and_a_running_order_arranges_all_but_the_votes(
    env: QueryEnvironment, order: str, plain: str, arranged: str
) -> None:
    await song(env, "abcd", participant_order=order)
    for participant, count in {"b": 5, "c": 2, "d": 5}.items():
        await env.vote(participant, count, voter=participant)
    for running_order, visibility, expected in (
        ([], "shown", plain),
        (["d", "gone", "b"], "shown", arranged),
        (["d", "gone", "b"], "hidden", "dbac"),
    ):
        changed = contest(participant_order=order, vote_visibility=visibility) | {"running_order": running_order}
        await env.production.change("contests", "song", changed)
        found = await results(env)
        assert keys(found) == list(expected)
        ranks = dict(zip(keys(found), column(found, "rank"), strict=True))
        assert visibility == "hidden" or ranks == {"a": 4, "b": 1, "c": 3, "d": 1}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"limit_result_amount": -1}, "cba"),
        ({"limit_result_amount": 2}, "cb"),
        ({"limit_result_amount": 0}, ""),
        ({"participant_visibility": "owner_only"}, ""),
    ],
)
async def test_the_best_are_listed_and_the_total_is_over_all(
    env: QueryEnvironment, rules: dict[str, Any], expected: str
) -> None:
    await song(env, "abc", participant_order="vote_count", **rules)
    for participant, count in {"a": 1, "b": 2, "c": 7}.items():
        await env.vote(participant, count, voter=participant)
    found = await results(env)
    assert (keys(found), found["count"]) == (list(expected), 10)
    assert column(found, "share") == [0.7, 0.2, 0.1][: len(expected)]


async def test_corrections_name_nobody_whom_results_do_not_name(env: QueryEnvironment) -> None:
    """Such as participants that were rejected, or all of them with `owner_only`."""
    closed = closed_contest("ab")
    closed["closing"]["participants"] = [["a", "approved", "A"], ["b", "approved", "B"], ["c", "rejected", "C"]]
    await env.production.create("contests", "song", closed)
    for key, status in {"a": "approved", "b": "rejected", "c": "rejected"}.items():
        await env.production.enter("song", key, title=f"{key} corrected", status=status)
    named = {(each["participant_key"], each["member"]) for each in (await results(env))["corrections"]}
    assert named == {("a", "title"), ("b", "title"), ("b", "status")}
    changed = closed | {"title": "Song corrected", "running_order": ["b", "a"]}
    changed["contest_config"] = closed["contest_config"] | {"participant_visibility": "owner_only"}
    await env.production.change("contests", "song", changed)
    [correction] = (await results(env))["corrections"]
    assert (correction["participant_key"], correction["after"]) == (None, "Song corrected")


async def test_a_bad_receipt_opens_nothing_and_is_no_error(env: QueryEnvironment) -> None:
    await song(env, "abc", vote_visibility="hidden_until_vote")
    await env.vote("a", 2)
    good = await given_receipt(env)
    of_another_contest = await given_receipt(env, "other")
    for bad in ("", "nonsense", "ä", "%00", "A" * 3000, of_another_contest, good[:-2] + "AA", good[2:]):
        answer = await env.client.get(PATH, params={"receipt": bad})
        assert (answer.status_code, answer.json()["count"]) == (200, None), bad
        assert answer.headers["cache-control"] == "private, no-store"


async def test_what_is_not_published_or_not_of_this_world_is_not_there(env: QueryEnvironment) -> None:
    await env.production.create("contests", "draft", {"contest_config": {"start": "2020-01-01T00:00:00Z"}})
    await env.production.create("contests", "planned", contest() | {"publish": "2099-01-01T00:00:00Z"})
    await env.test.create("contests", "trial", contest())
    for key in ("draft", "planned", "trial", "nothing", "%2e%2e", "a b"):
        for path in (f"/public/contests/{key}", f"/public/contests/{key}/results"):
            answer = await env.client.get(path)
            assert code(answer) == (404, "not_found")
            assert answer.headers["cache-control"] == "no-store"


async def test_a_contest_that_goes_and_comes_again_with_another_owner_is_found(env: QueryEnvironment) -> None:
    for account in ("acme", "globex", "initech"):  # a deleted contest keeps its key in its account
        await env.production.create("contests", "song", contest(), account)
        assert (await results(env))["count"] == 0
        await env.production.delete("contests", "song", account=account)
        assert (await env.client.get(PATH)).status_code == 404


async def test_an_unchanged_answer_is_304_and_a_vote_a_name_and_a_phase_change_its_tag(
    env: QueryEnvironment,
) -> None:
    await song(env, "abc")
    tag = '"none"'

    async def is_changed() -> bool:
        """Return whether the answer is a new one, and keep its tag."""
        nonlocal tag
        answer = await env.get(PATH, **{"if-none-match": tag})
        tag = answer.headers["etag"]
        assert answer.status_code in (200, 304)
        assert "cache-control" in answer.headers
        return answer.status_code == 200

    assert await is_changed()
    assert not await is_changed()
    await env.counts(await env.production.key(), position=await env.vote("a"))
    assert await is_changed()
    await env.production.change("participants", "a", {"status": "approved", "title": "Ann"})
    assert await is_changed()
    await env.production.change("contests", "song", contest(end="2021-01-01T00:00:00Z"))
    assert await is_changed()
    assert not await is_changed()


@pytest.mark.parametrize(
    ("start_s", "end_s", "expected"),
    [
        (-60, None, b"public, max-age=1, s-maxage=2"),
        (-60, 3600, b"public, max-age=1, s-maxage=2"),
        (-60, -1, b"public, max-age=1, s-maxage=2"),
        (3.0, 3600, b"public, max-age=1, s-maxage=2"),
        (2.9, 3600, b"public, max-age=0, s-maxage=1"),
        (-60, 2.0, b"public, max-age=0, s-maxage=1"),
        (-60, 1.9, b"public, max-age=0, s-maxage=0"),
        (-60, 0.9, b"public, max-age=0, s-maxage=0"),
    ],
)
def test_caches_never_answer_past_a_change_of_phase(start_s: float, end_s: float | None, expected: bytes) -> None:
    start, end = (None if at is None else NOW + int(at * 1_000_000) for at in (start_s, end_s))
    assert for_all(shared_for(a_contest(start=start, end=end), NOW)) == expected


async def test_right_before_a_change_of_phase_even_what_did_not_change_is_sent_whole(
    env: QueryEnvironment,
) -> None:
    """nginx, when a 304 forbids caching, keeps its response for as long as the first one allowed."""
    await song(env, "abc")

    async def is_sent_whole() -> bool:
        """Again with another end, if it is over between the two reads."""
        end = timestamp(time.time_ns() // 1_000 + 1_900_000)
        await env.production.change("contests", "song", contest(end=end))
        first = await env.client.get(PATH)
        assert first.headers["cache-control"] == "public, max-age=0, s-maxage=0"
        again = await env.client.get(PATH, headers={"if-none-match": first.headers["etag"]})
        return (again.status_code, again.content) == (200, first.content)

    await eventually(is_sent_whole)


def lasting(answer: httpx.Response) -> dict[str, str]:
    """The headers, but for what names the request."""
    return {name: value for name, value in answer.headers.items() if name != "x-request-id"}


async def test_what_caches_may_keep_is_the_same_for_all_and_says_nothing_that_is_hidden(
    env: QueryEnvironment,
) -> None:
    """In every phase and under every visibility."""
    key = await env.production.key()
    for visibility, hiding in HIDDEN.items():
        for phase, times in TIMES.items():
            name = f"{visibility}-{phase}"
            record = contest(vote_visibility=visibility, **times)
            if phase == "closed":
                approved = {"participants": [[f"{name}-a", "approved", None]]}
                record["closing"] = closed_contest("")["closing"] | approved
            await env.production.create("contests", name, record)
            await env.production.enter(name, f"{name}-a")
            await env.vote(f"{name}-a", 3, contest=name)
            path, hides = f"/public/contests/{name}/results", phase in hiding
            kept = await env.get(path)
            assert kept.json()["count"] == (None if hides else 3)
            for headers in (
                {"authorization": f"Bearer {key}"},
                {"cookie": "tally_session=x"},
                {"origin": "https://a"},
            ):
                same = await env.get(path, **headers)
                assert (same.content, lasting(same)) == (kept.content, lasting(kept))
            head = await env.client.head(path)
            assert (head.content, lasting(head)) == (b"", lasting(kept))
            assert kept.headers["cache-control"] == "public, max-age=1, s-maxage=2"
            assert not {"vary", "set-cookie"} & kept.headers.keys()
            opened = await env.client.get(path, params={"receipt": await given_receipt(env, name)})
            assert opened.headers["cache-control"] == "private, no-store"
            assert (opened.json()["count"] is None) is (hides and visibility != "hidden_until_vote")
