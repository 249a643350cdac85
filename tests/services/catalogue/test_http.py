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
async def test_an_integer_beyond_64_bits_is_named_where_it_stands_beside_faults_of_all_kinds(
    client: httpx.AsyncClient, number: int
) -> None:
    contest = (await client.post("/contests", json={})).headers["location"]
    wide = {"custom_data": {"a/b": [0, {"n": number}]}}
    others = {"title": 7, "unheard": 1, "contest_config": {"free": {"stray": 1}}}
    pointers = ["/contest_config/free/stray", "/custom_data/a~1b/1/n", "/title", "/unheard"]
    for send, path in ((client.post, "/contests"), (client.patch, contest)):
        refused = assert_problem(await send(path, json=wide | others), "validation_failed")
        assert sorted(each["pointer"] for each in refused["errors"]) == pointers
    refused = assert_problem(
        await client.post(f"{contest}/participants", json={"data": {"n": number}}), "validation_failed"
    )
    assert refused["errors"] == [{"pointer": "/data/n", "message": "must be an integer of at most 64 bits"}]


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
        return orjson.dumps({"custom_data": dict.fromkeys("abcdef", "x" * (size // 6))})

    def record(size: int) -> bytes:
        members = "custom_data", "style", "share", "video", "shop", "image"
        return orjson.dumps({name: {"text": "x" * (size // len(members))} for name in members})

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100_000

    assert (await client.post("/contests", content=record(260_000))).status_code == 201
    for content in (record(270_000), body(1 << 20), chunks()):
        assert_problem(await client.post("/contests", content=content), "payload_too_large")
    response = await client.post("/contests", content=record(270_000))
    assert response.json()["detail"].startswith("A contest may have at most 262,144 bytes as JSON, not 27")
    assert response.json()["max_bytes"] == 262_144


@pytest.mark.parametrize(("path", "most"), [("/shops", 1 << 20), ("/keys", 16_384)])
async def test_each_route_says_the_largest_size_of_its_body_and_reads_no_larger_one(
    client: httpx.AsyncClient, path: str, most: int
) -> None:
    response = await client.post(path, content=b" " * (most + 1))
    assert_problem(response, "payload_too_large")
    assert response.json()["max_bytes"] == most
    assert f"{most:,} bytes" in response.json()["detail"]
    assert_problem(await client.post(path, content=b" " * most), "malformed_json")


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
    ready, names = await client.get("/readyz"), ("storage", "deployment", "log", "views", "keys")
    assert ready.status_code == 200
    assert ready.json() == {"ready": True, "dependencies": dict.fromkeys(names, "ready")}


async def test_entity_tags_show_no_offset_of_the_log(client: httpx.AsyncClient) -> None:
    """A partition of it holds the records of several accounts."""
    made = await client.post("/contests", json={"title": "Song of the year"})
    changed = await client.patch(f"/contests/{made.json()['key']}", json={"title": "Another"})
    assert made.headers["etag"] != changed.headers["etag"]
    for answer in (made, changed):
        time_us = microseconds(parse_timestamp(answer.json()["updated"]))
        assert answer.headers["etag"].strip('"').partition(".")[0] == str(time_us)
