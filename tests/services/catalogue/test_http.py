"""The catalogue over HTTP: routes, conditional requests, and its errors."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest

from libs.tally.time_conversion import microseconds, parse_timestamp
from libs.web.errors import TABLE
from libs.web.server.http_middleware import HttpMiddleware
from libs.web.server.http_service import build_app

CONTEST = {"title": "Song of the year", "contest_config": {"free": {"max_contest": 3}}}


def assert_problem(response: httpx.Response, code: str) -> dict[str, Any]:
    problem: dict[str, Any] = response.json()
    assert (response.status_code, problem["code"]) == (TABLE[code].status, code)
    assert response.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "instance", "code", "request_id"} <= set(problem)
    assert problem["status"] == response.status_code
    assert problem["instance"] == response.request.url.path.rstrip("/")
    assert response.headers["x-request-id"] == problem["request_id"]
    return problem


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**30])
async def test_an_integer_beyond_64_bits_is_refused_where_it_stands(
    client: httpx.AsyncClient, number: int
) -> None:
    wide = {"custom_data": {"a/b": [0, {"n": number}]}}
    named = [{"pointer": "/custom_data/a~1b/1/n", "message": "must be an integer of at most 64 bits"}]
    assert assert_problem(await client.post("/contests", json=wide), "validation_failed")["errors"] == named
    contest = (await client.post("/contests", json={})).headers["location"]
    assert assert_problem(await client.patch(contest, json=wide), "validation_failed")["errors"] == named
    deep = {"data": {"n": number}}
    refused = assert_problem(await client.post(f"{contest}/participants", json=deep), "validation_failed")
    assert [each["pointer"] for each in refused["errors"]] == ["/data/n"]


async def test_faults_of_all_kinds_are_named_at_once(client: httpx.AsyncClient) -> None:
    faults = {"title": 7, "unheard": 1, "custom_data": {"n": 2**70}, "contest_config": {"free": {"stray": 1}}}
    pointers = {"/title", "/unheard", "/custom_data/n", "/contest_config/free/stray"}
    contest = (await client.post("/contests", json={})).headers["location"]
    for answer in (await client.post("/contests", json=faults), await client.patch(contest, json=faults)):
        errors = assert_problem(answer, "validation_failed")["errors"]
        assert {each["pointer"] for each in errors} == pointers
        assert len(errors) == len(pointers)


@pytest.mark.parametrize("slash", ["", "/"])
async def test_every_path_answers_with_and_without_a_trailing_slash(client: httpx.AsyncClient, slash: str) -> None:
    created = await client.post(f"/contests{slash}", json={})
    assert created.status_code == 201
    where = created.headers["location"]
    assert (await client.get(f"{where}{slash}")).status_code == 200
    assert (await client.get(f"{where}/participants{slash}")).status_code == 200
    assert_problem(await client.get(f"{where}{slash}/nothing{slash}"), "not_found")


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer x", "Basic eDp5", "Bearer tk_00_x"])
async def test_without_a_known_key_nothing_is_answered(
    client: httpx.AsyncClient, authorization: str | None
) -> None:
    request = client.build_request("GET", "/contests")
    del request.headers["authorization"]
    if authorization is not None:
        request.headers["authorization"] = authorization
    response = await client.send(request)
    assert_problem(response, "unauthorized")
    assert response.headers["www-authenticate"] == "Bearer"


async def test_a_body_can_be_too_large(client: httpx.AsyncClient) -> None:
    def body(size: int) -> bytes:
        return orjson.dumps({"title": "x" * size})

    assert (await client.post("/contests", content=body(800_000))).status_code == 201
    assert_problem(await client.post("/contests", content=body(950_000)), "payload_too_large")
    assert_problem(await client.post("/contests", content=body(1 << 20)), "payload_too_large")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100_000

    assert_problem(await client.post("/contests", content=chunks()), "payload_too_large")


async def test_other_methods_and_media_types_are_refused(client: httpx.AsyncClient) -> None:
    response = await client.put("/contests/x", json={})
    assert_problem(response, "method_not_allowed")
    assert response.headers["allow"] == "DELETE, GET, HEAD, PATCH"
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert_problem(await client.post("/contests", content=b"a=1", headers=form), "unsupported_media_type")
    merge = {"content-type": "application/merge-patch+json; charset=utf-8"}
    where = (await client.post("/contests", json={})).headers["location"]
    assert (await client.patch(where, content=b'{"title": "x"}', headers=merge)).status_code == 200


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ZeroDivisionError("secret detail"), "internal_error"),
        (MemoryError("secret detail"), "overloaded"),
        (orjson.JSONDecodeError("Not enough memory to allocate buffer: secret", "", 0), "overloaded"),
    ],
)
async def test_a_bug_shows_nothing_of_itself_and_a_want_of_memory_may_be_tried_again(
    caplog: pytest.LogCaptureFixture, error: Exception, code: str
) -> None:
    app = build_app("Tallykeeper: catalogue", [])

    @app.get("/broken")
    async def broken() -> None:
        raise error

    transport = httpx.ASGITransport(HttpMiddleware(app), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://catalogue") as client:
        response = await client.get("/broken")
    problem = assert_problem(response, code)
    assert response.headers.get("retry-after") == ("1" if code == "overloaded" else None)
    assert "secret" not in response.text
    assert any(problem["request_id"] in record.getMessage() and record.exc_info for record in caplog.records)


async def test_the_process_says_that_it_lives_and_can_serve(client: httpx.AsyncClient) -> None:
    assert (await client.get("/livez")).status_code == 200
    ready = await client.get("/readyz")
    assert (ready.status_code, ready.json()) == (
        200,
        {"ready": True, "dependencies": dict.fromkeys(("storage", "deployment", "log", "views", "keys"), "ready")},
    )


async def test_entity_tags_show_no_offset_of_the_log(client: httpx.AsyncClient) -> None:
    """A partition of it holds the records of several accounts."""
    made = await client.post("/contests", json=CONTEST)
    changed = await client.patch(f"/contests/{made.json()['key']}", json={"title": "Another"})
    assert made.headers["etag"] != changed.headers["etag"]
    for answer in (made, changed):
        time_us = microseconds(parse_timestamp(answer.json()["updated"]))
        assert answer.headers["etag"].strip('"').partition(".")[0] == str(time_us)
