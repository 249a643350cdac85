"""Hostile headers, cookies and parameters: parsed, or rejected with a documented error."""

from contextlib import suppress
from typing import Any, Final

import orjson
from fastapi import FastAPI
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from libs.contracts.limits import JSON_BODY
from libs.telemetry.tracing import Tracing
from libs.web.door.auth import Authenticator
from libs.web.door.client_address import Proxies, parse_hop
from libs.web.door.request_ids import request_id
from libs.web.door.request_parsing import declared_size, read_object, require_json, stream_body
from libs.web.door.sessions import COOKIE, Sessions
from libs.web.errors import RangeNotSatisfiable, UnsupportedMediaType, handle_errors
from libs.web.responses import matches, not_modified, precondition_fails, requested_range
from libs.web.server.http_middleware import HttpMiddleware
from tests.libs.web.fake_keys import Key, Keys
from tests.support.builders.hostile import ask, mutated, mutated_text
from tests.support.clients.positions import HeldSecrets
from tests.support.servers.serving import served

SECRETS: Final = HeldSecrets(b"s" * 32)
KEY_ID: Final = "key_1"


class KeyOfASession(Keys):
    """Finds a key only by the id in a session."""

    async def find_id(self, key_id: str) -> Key:
        assert key_id == KEY_ID, "a session that nobody signed"
        return Key(key_id)


HEADERS: Final = {
    b"accept": (b"application/json;q=0.5, */*",),
    b"authorization": (b"Bearer abc", b"bearer  ", b"Basic YTpi"),
    b"content-length": (b"12", b"0"),
    b"content-type": (b"application/json; charset=utf-8", b"application/merge-patch+json", b"x/y+json"),
    b"cookie": (COOKIE.encode() + b"=key_1.aR3x_A.c2ln; other=1",),
    b"forwarded": (b'for="[2001:db8::5]:4711";proto=https, for=10.2.2.2',),
    b"host": (b"example.org:8080", b"[::1]:80"),
    b"idempotency-key": (b"abc-123",),
    b"if-match": (b'"1", W/"2"', b"*"),
    b"if-none-match": (b'"1.abc"',),
    b"origin": (b"https://example.org:8080", b"null"),
    b"range": (b"bytes=0-5", b"bytes=-5"),
    b"service-brand": (b"brand",),
    b"service-key": (b"key",),
    b"traceparent": (b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",),
    b"x-forwarded-for": (b"198.51.100.7:51820, [2001:db8::5]:1, 10.0.0.1",),
    b"x-request-id": (b"abc",),
}
some_headers = st.lists(
    st.sampled_from(sorted(HEADERS)).flatmap(
        lambda name: mutated(*HEADERS[name]).map(lambda value: (name, value))
    ),
    max_size=6,
)


async def everything(request: Request) -> Response:
    """Reads all that any handler reads."""
    for header in ("x-forwarded-for", "forwarded"):
        proxies = Proxies("127.0.0.0/8, 10.0.0.0/8", header)
        proxies.end_user(request.scope)
        proxies.network(request.scope)
    _, body = await read_object(request, JSON_BODY)
    said = [
        request.query_params.get("limit", 20),
        request.url.path,
        str(request.base_url),
        request_id(request.scope),
        not_modified(request.headers.get("if-none-match"), '"1"'),
        precondition_fails(request.headers.get("if-match"), '"1"'),
        body,
    ]
    for ask_for in (AUTH.authenticate, AUTH.authenticate_legacy):
        await ask_for(request.scope)
    return Response(orjson.dumps(said))


AUTH: Final = Authenticator(KeyOfASession(), Proxies(), Sessions(SECRETS))
PROBE: Final = Starlette(routes=[Route(f"{base}/probe", everything, methods=["POST"]) for base in ("", "/legacy")])
handle_errors(PROBE)
FRONT: Final = HttpMiddleware(PROBE)


@given(
    some_headers, mutated(b"limit=20&next=abc").filter(bytes.isascii), st.sampled_from(["/probe", "/legacy/probe"])
)
async def test_a_request_with_any_headers_is_answered_or_refused(
    headers: list[tuple[bytes, bytes]], query: bytes, path: str
) -> None:
    answer = await ask(FRONT, "POST", path, headers, b'{"a": 1}', query)
    assert answer.status == 200 or answer.is_refusal(), answer


async def test_what_is_not_escaped_in_an_address_is_refused_before_anything_reads_it() -> None:
    async with served(FastAPI()) as server:
        for target in (b"/probe?tags=\xff", b"/caf\xc3\xa9"):
            client = await server.open()
            client.send(b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n\r\n")
            status, body = await client.answer()
            assert (status, orjson.loads(body)["code"]) == (400, "bad_request")
            client.close()


@given(mutated(*HEADERS[b"content-length"]))
@example(b"\xb2")
async def test_a_length_that_is_no_number_is_as_none(value: bytes) -> None:
    headers = [(b"content-length", value)]
    assert 0 <= declared_size(headers, 100) <= 100

    async def receive() -> Any:
        return {"type": "http.request", "body": b"x"}

    if not value.isdigit():
        assert [chunk async for chunk in stream_body(headers, receive, 5)] == [b"x"]


@given(mutated(*HEADERS[b"content-type"]))
def test_a_media_type_is_taken_or_refused(value: bytes) -> None:
    try:
        taken = require_json([(b"content-type", value)])
    except UnsupportedMediaType:
        return
    assert taken.endswith("json")


@given(mutated_text('"1"', 'W/"1", "2"', "*"))
def test_conditions_name_a_tag_or_do_not(condition: str) -> None:
    if matches(condition, '"1"'):
        assert not_modified(condition, '"1"')
        assert not precondition_fails(condition, '"1"')
        assert condition.strip() == "*" or '"1"' in condition


@given(mutated_text("bytes=0-5", "bytes=-5", "bytes=5-"), st.integers(0, 20))
def test_a_range_lies_within_the_bytes_or_is_refused(header: str, size: int) -> None:
    with suppress(RangeNotSatisfiable):
        span = requested_range(header, size)
        assert span is None or 0 <= span.start < span.end <= size


@given(mutated_text("198.51.100.7:51820", "[2001:db8::5]:1", "::ffff:10.0.0.1", "fe80::1%eth0"))
def test_a_hop_is_an_address_or_none(hop: str) -> None:
    address = parse_hop(hop)
    assert address is None or parse_hop(str(address)) == address


@given(mutated(*HEADERS[b"traceparent"]))
def test_a_trace_is_continued_or_left_out(traceparent: bytes) -> None:
    Tracing(None, 0.0).sampled([(b"traceparent", traceparent)])  # type: ignore[arg-type]


@given(st.data())
async def test_a_session_and_a_ticket_are_what_was_issued_or_none(data: st.DataObject) -> None:
    sessions = Sessions(SECRETS)
    issued = await sessions.issue(KEY_ID)
    assert await sessions.key_id(f"{COOKIE}={issued}") == KEY_ID
    shown = data.draw(mutated_text(f"{COOKIE}={issued}", f'a="b; {COOKIE}="{issued}"'))
    assert await sessions.key_id(shown) in (None, KEY_ID)
    ticket = await sessions.issue_ticket(KEY_ID)
    assert await sessions.ticket(ticket) is not None
    held = await sessions.ticket(data.draw(mutated_text(ticket, issued)))
    assert held is None or held.key_id == KEY_ID
