"""A server reads the same requests from any bytes as h11, in any segments, and each connection ends."""

import asyncio
import random
from pathlib import Path
from typing import Any, Final

import pytest

from libs.web.server.asgi_routes import HotRoute
from libs.web.server.connection_phases import ConnectionPhase
from libs.web.server.direct_routes import DirectRoutes
from libs.web.server.hot_requests import HotRequest, Reply
from libs.web.server.http_connection import MOST_PIPELINED
from libs.web.server.metrics import RequestTimes
from tests.libs.web.server import reference_reader
from tests.libs.web.server.driven_connection import Driver, Socket
from tests.libs.web.server.reference_reader import Request
from tests.libs.web.server.request_bytes import case, cut
from tests.support.run_profile import by_profile

CASES: Final = by_profile(short=25_000, long=1_000_000)
SHARDS: Final = 5
CORPUS: Final = Path(__file__).with_name("request_corpus.txt")
"""Bytes in which a difference was found, one case a line, escaped as in Python."""


def nothing(name: str) -> None: ...


class Recorder:
    """An app and a direct route that record requests and answer with their number, now or later."""

    def __init__(self) -> None:
        self.draw = random.Random()
        self.requests: list[Request] = []
        methods = ["GET", "POST", "PUT"]
        endpoint = HotRoute("/direct/{name}", nothing, self.reply, 1000, methods=methods)
        self.driver = Driver(self.serve, DirectRoutes([endpoint], (), None, RequestTimes()))

    async def serve(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        if self.draw.random() < 0.1:
            await asyncio.sleep(0)
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        answer = self._record(scope, body)
        for _ in range(self.draw.choice((0, 0, 0, 1, 3))):
            await asyncio.sleep(0)
        headers = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def reply(self, request: HotRequest) -> Reply:
        answer = self._record(request.scope, await request.read(1000))
        for _ in range(self.draw.choice((0, 0, 0, 1, 3))):
            await asyncio.sleep(0)
        return Reply(200, [(b"content-length", b"%d" % len(answer))], answer)

    def _record(self, scope: Any, body: bytes) -> bytes:
        query = scope["query_string"]
        target = scope["raw_path"] + (b"?" + query if query else b"")
        method, version = scope["method"].encode(), scope["http_version"].encode()
        self.requests.append(Request(method, target, version, tuple(scope["headers"]), body))
        return b"<%d>" % len(self.requests)


async def check(recorder: Recorder, segments: tuple[bytes, ...], draw: random.Random) -> None:
    """Compare the requests that the server reads with the reference's. Raises `AssertionError`."""
    data = b"".join(segments)
    recorder.draw, recorder.requests = draw, []
    driver, expected = recorder.driver, reference_reader.read(data)
    connection, socket = driver.connect()
    for segment in segments:
        read_on = await driver.until(lambda: not socket.is_paused or socket.is_closed)
        assert read_on, "reading does not go on"
        if socket.is_closed:
            break
        connection.data_received(segment)
        assert len(connection._held) <= len(segment), "held input grows"
        assert len(connection.pipeline) <= MOST_PIPELINED
        for _ in range(draw.choice((0, 0, 1, 3))):
            await asyncio.sleep(0)
    assert await driver.until(lambda: not socket.is_paused and not _is_at_work(connection)), "no response"
    await asyncio.sleep(0)  # a head without a body is sent in the next turn
    assert [_comparable(request) for request in recorder.requests] == [
        _comparable(request) for request in expected.requests
    ], expected.reason
    ended = connection.phase in (ConnectionPhase.END, ConnectionPhase.CLOSED)
    if expected.ends is not None:
        assert ended is expected.ends, expected.reason
    _check_responses(recorder, socket)
    if expected.is_refused and not expected.requests:
        assert b"HTTP/1.1 400 " in b"".join(socket.writes), expected.reason
    for _ in range(2):  # a body that is too late is refused first
        driver.pass_time()
        await asyncio.sleep(0)
    assert socket.is_closed, "the connection does not end"
    connection.connection_lost(None)
    assert await driver.until(lambda: not driver.state.tasks), "a request does not end"
    assert len(driver.limits) == 0


def _is_at_work(connection: Any) -> bool:
    if connection.phase in (ConnectionPhase.CLOSED, ConnectionPhase.END):
        return False
    return bool(connection._held) or connection._owes_earlier() or connection.phase is ConnectionPhase.LAST


def _comparable(request: Request) -> Request:
    """Without an empty query, which ASGI does not show, and with a coding in lower case, as h11 shows it."""
    target = request.target
    headers = tuple(
        (name, value.lower() if name == b"transfer-encoding" else value) for name, value in request.headers
    )
    if target.endswith(b"?") and target.count(b"?") == 1:
        target = target[:-1]
    return request._replace(target=target, headers=headers)


def _check_responses(recorder: Recorder, socket: Socket) -> None:
    """Responses are whole, and in the order of the requests."""
    rest, answered = b"".join(socket.writes).replace(b"HTTP/1.1 100 Continue\r\n\r\n", b""), 0
    while rest.startswith(b"HTTP/1.1 200 "):
        _, _, rest = rest.partition(b"\r\n\r\n")
        answered += 1
        if recorder.requests[answered - 1].method != b"HEAD":
            number = b"<%d>" % answered
            assert rest.startswith(number), socket.writes
            rest = rest[len(number) :]
    assert not rest or rest.startswith(b"HTTP/1.1 400 "), rest
    assert rest.count(b"HTTP/1.1 400") <= 1
    assert answered == len(recorder.requests)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
async def test_random_requests_are_read_as_by_the_reference(shard: int) -> None:
    recorder = Recorder()
    for number in range(shard, CASES, SHARDS):
        draw = random.Random(number)
        segments = case(draw)
        try:
            await check(recorder, segments, draw)
        except AssertionError as error:
            error.add_note(f"case {number}: {b''.join(segments)!r} in {[len(segment) for segment in segments]}")
            raise


@pytest.mark.parametrize("line", CORPUS.read_text().splitlines())
async def test_found_cases_are_read_as_by_the_reference(line: str) -> None:
    data = line.encode().decode("unicode_escape").encode("latin-1")
    for number in range(20):
        draw = random.Random(number)
        await check(Recorder(), cut(draw, data) if number else (data,), draw)
