"""Errors, authentication and conditions, without servers."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from libs.contracts.limits import JSON_BODY
from libs.tally.errors import LimitReached, LimitScope, TallyError, ViewsUnavailable
from libs.web.door.auth import Authenticator
from libs.web.door.client_address import Proxies
from libs.web.door.request_parsing import read_body
from libs.web.errors import Unauthorized, handle_errors, problem_response
from libs.web.responses import matches, not_modified, precondition_fails
from libs.web.server.health import health_routes
from libs.web.server.http_middleware import HttpMiddleware
from libs.web.server.tracing import Traced
from tests.libs.web.fake_keys import Key, Keys

KEY = Key(account="brand", permissions=frozenset({"content:read"}))


class TwoKeys(Keys):
    """One in memory, and one that is new."""

    def get(self, token: str) -> Key | None:
        return KEY if token == "known" else None

    async def find(self, token: str) -> Key | None:
        return KEY if token == "new" else None


AUTH = Authenticator(TwoKeys(), Proxies())
SCOPE: dict[str, Any] = {"type": "http", "path": "/", "raw_path": b"/", "query_string": b"", "headers": []}


async def test_the_legacy_generation_needs_brand_and_key_that_belong_together() -> None:
    for token in (b"known", b"new"):
        headers = [(b"service-brand", b"brand"), (b"service-key", token)]
        key = await AUTH.authenticate_legacy({"headers": headers})
        assert key.account == "brand"
    for headers in (
        [],
        [(b"service-brand", b"brand")],
        [(b"service-key", b"known")],
        [(b"service-brand", b"other"), (b"service-key", b"known")],
        [(b"service-brand", b"brand"), (b"service-key", b"wrong")],
        [(b"authorization", b"Bearer known")],
    ):
        with pytest.raises(Unauthorized):
            await AUTH.authenticate_legacy({"headers": headers})


def answer(error: TallyError, path: str) -> tuple[int, dict[str, Any], dict[str, str]]:
    response = problem_response(error, {"path": path, "type": "http"})
    return response.status_code, orjson.loads(response.body), dict(response.headers)


def test_an_error_s_data_stands_beside_its_code() -> None:
    status, problem, _ = answer(LimitReached(LimitScope.IP, 3, 3), "/contests/c/votes")
    assert (status, problem["code"], problem["limit"], problem["used"]) == (409, "ip_limit_reached", 3, 3)
    assert problem["next_free_vote_at"] is None


@pytest.mark.parametrize(
    ("code", "status"),
    [
        *((code, 400) for code in ("not_found", "forbidden", "validation_failed", "in_use", "payload_too_large")),
        ("unauthorized", 401),
        ("method_not_allowed", 405),
        ("internal_error", 500),
        ("views_unavailable", 503),
    ],
)
def test_the_legacy_generation_answers_in_its_own_way(code: str, status: int) -> None:
    error = TallyError("what is wrong")
    error.code = code
    for base in ("/legacy/contests/1", "/legacy-test/contests/1"):
        found, body, headers = answer(error, base)
        assert (found, body) == (status, {"error": {"code": code, "message": "what is wrong"}})
        assert headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("condition", "strong", "weak"),
    [
        (None, False, False),
        ("*", True, True),
        ('"1"', True, True),
        ('W/"1"', False, True),
        ('"0", "1"', True, True),
        ('"0","2"', False, False),
        (' , "0" ,, W/"1"\t', False, True),
        ('"0,"1"', False, False),
        ('"1" "2"', False, False),
        ('"' + " " * 20_000 + '"1"', False, False),
        ("x" + " " * 20_000 + "x", False, False),
        (", ".join(['"0"'] * 99 + ['"1"']), True, True),
        (", ".join(['"0"'] * 100 + ['"1"']), False, False),
        ("1", False, False),
        ("garbage", False, False),
    ],
)
def test_entity_tags_are_compared_as_http_says(condition: str | None, strong: bool, weak: bool) -> None:
    assert matches(condition, '"1"') is strong
    assert not_modified(condition, '"1"') is weak
    assert precondition_fails(condition, '"1"') is (condition is not None and not strong)


async def test_readiness_names_what_is_away_and_the_log_why(caplog: pytest.LogCaptureFixture) -> None:
    async def fine() -> None: ...

    async def away() -> None:
        raise ViewsUnavailable("They cannot be reached.", cause="10.0.0.7:6379 refused")

    async def hangs() -> None:
        await asyncio.sleep(60)

    optional = {route.path: route for route in health_routes({"log": fine}, {"storage": away})}
    response = await optional["/readyz"].endpoint(Request({"type": "http"}))
    states = {"storage": "unavailable", "log": "ready"}
    assert (response.status_code, orjson.loads(response.body)) == (200, {"ready": True, "dependencies": states})
    caplog.clear()
    routes = {route.path: route for route in health_routes({"log": fine, "views": away, "store": hangs}, {})}
    response = await routes["/readyz"].endpoint(Request({"type": "http"}))
    assert response.status_code == 503
    assert orjson.loads(response.body) == {
        "ready": False,
        "dependencies": {"log": "ready", "views": "unavailable", "store": "unavailable"},
    }
    await routes["/readyz"].endpoint(Request({"type": "http"}))
    views, store = (record.message for record in caplog.records if record.name == "libs.web.server.health")
    assert "10.0.0.7:6379 refused" in views
    assert "no answer within 2 s" in store
    assert (await routes["/livez"].endpoint(None)).status_code == 200


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        ("order-7:abc_1", True),
        ("a" * 128, True),
        ("a" * 129, False),
        ("two words", False),
        ("<script>", False),
        ("", False),
    ],
)
async def test_every_answer_names_its_request_as_the_caller_did_where_that_can_be_written(
    sent: str, taken: bool
) -> None:
    async def endpoint(_: Request) -> Response:
        return Response(b"fine")

    app = FastAPI()
    handle_errors(app)
    app.add_api_route("/got", endpoint)
    async with served(app) as client:
        for path in ("/got", "/nothing", "/legacy/nothing"):
            answer = await client.get(path, headers={"X-Request-Id": sent})
            (name,) = answer.headers.get_list("x-request-id")
            assert (name == sent) is taken
            assert name
            assert path != "/nothing" or answer.json()["request_id"] == name
            assert path != "/legacy/nothing" or "request_id" not in answer.text
        unnamed = [await client.get("/got"), await client.get("/got")]
        assert len({answer.headers["x-request-id"] for answer in unnamed}) == 2


async def test_no_shared_cache_keeps_what_says_nothing_of_caches() -> None:
    async def silent(_: Request) -> Response:
        return Response("mine")

    async def public(_: Request) -> Response:
        return Response("all's", headers={"Cache-Control": "public, max-age=1"})

    app = Starlette(routes=[Route("/silent", silent, methods=["GET", "POST"]), Route("/public", public)])
    async with served(app) as client:
        for method in ("GET", "HEAD"):
            assert (await client.request(method, "/silent")).headers["cache-control"] == "private, no-cache"
            answer = await client.request(method, "/public")
            assert answer.headers.get_list("cache-control") == ["public, max-age=1"]
        assert "cache-control" not in (await client.post("/silent")).headers


async def test_a_caller_who_hangs_up_is_no_bug(caplog: pytest.LogCaptureFixture) -> None:
    async def endpoint(request: Request) -> Response:
        return Response(await read_body(request.scope["headers"], request.receive, JSON_BODY))

    app = Starlette(routes=[Route("/", endpoint, methods=["POST"])])
    handle_errors(app)

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None: ...

    await HttpMiddleware(app)(SCOPE | {"method": "POST"}, receive, send)
    assert not caplog.records


def served(app: Starlette) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=HttpMiddleware(app)), base_url="http://here")


async def test_head_answers_as_get_does_without_the_body() -> None:
    async def endpoint(_: Request) -> Response:
        return Response(b"0123456789", headers={"ETag": '"1"'})

    app = FastAPI()
    handle_errors(app)
    app.add_api_route("/got", endpoint, methods=["GET"])
    app.add_api_route("/posted", endpoint, methods=["POST"])
    async with served(app) as client:
        client.headers["X-Request-Id"] = "the-same"
        got, head = await client.get("/got"), await client.head("/got/")
        assert (head.status_code, head.content, dict(head.headers)) == (200, b"", dict(got.headers))
        assert (await client.head("/nothing")).status_code == 404
        refused = await client.head("/posted")
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
        assert (await client.put("/got")).headers["allow"] == "GET, HEAD"


async def test_head_of_a_stream_ends_it() -> None:
    ended = asyncio.Event()

    async def forever() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"more"
                await asyncio.sleep(0)
        finally:
            ended.set()

    async def endpoint(_: Request) -> Response:
        return StreamingResponse(forever())

    sent: list[Any] = []
    answered = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if message["type"] == "http.response.body":
            answered.set()

    async with asyncio.timeout(60):
        await HttpMiddleware(Starlette(routes=[Route("/", endpoint)]))(SCOPE | {"method": "HEAD"}, receive, send)
    assert ended.is_set()
    assert [message.get("body") for message in sent] == [None, b""]


async def test_a_stranger_s_traceparent_has_nothing_traced() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None: ...

    class Sampler:
        def sampled(self, headers: Any) -> None:
            seen.append(list(headers))

    sampler: Any = Sampler()
    traced: Any = Traced(app, sampler, Proxies("10.0.0.0/8"))
    headers = [(b"traceparent", b"00-" + b"1" * 32 + b"-" + b"1" * 16 + b"-01")]
    for peer in ("198.51.100.1", "10.0.0.1"):
        await traced({"type": "http", "client": (peer, 1), "headers": headers}, None, None)
    assert seen == [[], headers]
