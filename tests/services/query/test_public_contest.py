"""A contest as voters see it: for apps without a key, on pages of every origin."""

from typing import Any

import pytest

from tests.services.query.query_environment import QueryEnvironment, contest
from tests.services.query.streams.stream_clients import PUBLIC_STREAM, Service
from tests.services.query.test_visibility import HIDDEN, TIMES
from tests.support.loop_turns import LONGEST_S, measured_turns, slowness

PATH = "/public/contests/song"
ORIGIN = "https://app.example"


def image(version: str, access: str = "public") -> dict[str, Any]:
    picture = {"object": version, "format": "png", "width": 2, "height": 1, "size": 1, "sha256": ""}
    return {"title": "I", "picture": picture, "access": {"access": access}}


async def song(env: QueryEnvironment, **config: Any) -> None:
    await env.production.create(
        "contests", "song", contest(**config) | {"description": "Sing", "image": {"key": "i1"}}
    )
    await env.production.create("images", "i1", image("one"))
    await env.production.enter("song", "a", story="A story", user={"user_id": "u"}, data={"x": 1})
    await env.production.enter("song", "b", image_key="i2", number_string="7b")
    await env.production.create("images", "i2", image("two"))


async def read(env: QueryEnvironment) -> Any:
    return await env.read(PATH)


def at(key: str, version: str) -> dict[str, Any]:
    url = f"/media/image/{key}?v={version}"
    sizes = {size: f"{url}&size={size}" for size in ("thumb", "default", "large")}
    return {"key": key, "url": url, "sizes": sizes}


async def test_the_record_has_exactly_the_documented_members(env: QueryEnvironment) -> None:
    await song(env, is_contest_time_shown=True, share_top_x=3, participant_style={"skin": "round"})
    await env.production.enter("song", "c", status="pending")
    found = await read(env)
    assert found.pop("updated") > "2026"
    of_both = {"number_string": None, "story": None, "image": None}
    assert found == {
        "contest_key": "song",
        "title": "Song",
        "description": "Sing",
        "image": at("i1", "one"),
        "contest_type": "voteonly",
        "phase": "running",
        "start": "2020-01-01T00:00:00.000000Z",
        "end": None,
        "is_anonymous_voting_enabled": False,
        "is_contest_time_shown": True,
        "is_grid_hidden": False,
        "is_randomize": False,
        "is_vote_removal_allowed": True,
        "participant_style": {"skin": "round"},
        "share_top_x": 3,
        "participants": [
            of_both
            | {
                "participant_key": "a",
                "running_number": 1,
                "number_string": "1",
                "title": "A",
                "story": "A story",
            },
            of_both
            | {"participant_key": "b", "running_number": 2, "title": "B"}
            | {"number_string": "7b", "image": at("i2", "two")},
        ],
    }


async def test_rating_and_ordering_contests_show_what_a_voter_can_choose(env: QueryEnvironment) -> None:
    look = {"sub_rating_id": "look", "title": "Look"}
    rules = {"max_rating": 10, "sub_rating_configs": [look | {"style": {"x": 1}}]}
    rated = contest(rating=rules) | {"contest_type": "rating"}
    await env.production.create("contests", "song", rated)
    subs = [look | {"max_votes": None}]
    assert (await read(env))["rating"] == {"max_rating": 10, "step_size": None, "sub_ratings": subs}
    positions = {"positions": [{"id": "1", "votes": 12, "title": "First"}]}
    ordered = contest(ordering=positions) | {"contest_type": "ordering"}
    await env.production.change("contests", "song", ordered)
    assert (await read(env))["positions"] == [{"id": "1", "index": None, "title": "First", "votes": 12}]


async def test_a_picture_that_changes_becomes_private_or_goes_is_followed_at_once(env: QueryEnvironment) -> None:
    await song(env)
    first = await env.get(PATH)
    for version, access, shown in (("three", "public", at("i2", "three")), ("three", "private", None)):
        await env.production.change("images", "i2", image(version, access), contest="")
        assert (await read(env))["participants"][1]["image"] == shown
    last = await env.get(PATH)
    assert last.headers["etag"] != first.headers["etag"]
    await env.production.create("contests", "other", contest())
    unchanged = await env.get(PATH, **{"if-none-match": last.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")


@pytest.mark.parametrize("visibility", HIDDEN)
async def test_votes_change_nothing_in_it(env: QueryEnvironment, visibility: str) -> None:
    await song(env, vote_visibility=visibility, participant_order="vote_count", **TIMES["running"])
    before = await read(env)
    await env.vote("b", 5)
    assert await read(env) == before


async def test_owner_only_names_no_participants(env: QueryEnvironment) -> None:
    await song(env, participant_visibility="owner_only")
    assert (await read(env))["participants"] == []


async def test_pages_of_every_origin_read_it_and_its_errors_and_follow_the_stream(
    env: QueryEnvironment, service: Service
) -> None:
    await song(env)
    for path in (PATH, f"{PATH}/", f"{PATH}/results", "/public/contests/none", "/public/nothing"):
        answer = await env.get(path, origin=ORIGIN)
        assert answer.headers.get_list("access-control-allow-origin") == ["*"], path
        assert "access-control-allow-credentials" not in answer.headers
        assert "ETag" in answer.headers["access-control-expose-headers"]
    wrong = await env.client.post(PATH, headers={"origin": ORIGIN})
    assert (wrong.status_code, wrong.headers["access-control-allow-origin"]) == (405, "*")
    async with service.listen(PUBLIC_STREAM, origin=ORIGIN) as stream:
        answer = stream.response
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")


async def test_a_browser_hears_before_a_request_what_is_allowed(env: QueryEnvironment) -> None:
    asked = {
        "origin": ORIGIN,
        "access-control-request-method": "GET",
        "access-control-request-headers": "last-event-id",
    }
    answer = await env.client.options(f"{PATH}/results", headers=asked)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-allow-methods"] == "GET, HEAD"
    assert "Last-Event-ID" in answer.headers["access-control-allow-headers"]
    assert "Authorization" not in answer.headers["access-control-allow-headers"]
    upload = await env.client.options("/files/f/content?signature=s", headers=asked)
    assert (upload.status_code, upload.headers["access-control-allow-methods"]) == (204, "GET, HEAD, PUT, DELETE")


async def test_everything_else_stays_closed_to_other_origins(env: QueryEnvironment) -> None:
    key = await env.production.key()
    asked = {"origin": ORIGIN, "access-control-request-method": "GET"}
    for path in ("/contests/song/vote_updates", "/contests", "/files/f", "/publicity"):
        read, question = await env.get(path, key, origin=ORIGIN), await env.client.options(path, headers=asked)
        assert question.status_code in (404, 405)
        for answer in (read, question):
            assert not [name for name in answer.headers if name.startswith("access-control")]
    plain = await env.client.options(PATH)
    assert plain.status_code == 405


async def test_large_free_form_data_of_participants_keep_no_other_request_waiting(env: QueryEnvironment) -> None:
    large = {f"m{number}": number for number in range(40_000)}
    await song(env)
    for number in range(20):
        await env.production.enter("song", f"p{number}", data=large)
    with measured_turns() as turns:
        assert len((await read(env))["participants"]) == 22
    assert turns.longest_s < LONGEST_S * slowness()
