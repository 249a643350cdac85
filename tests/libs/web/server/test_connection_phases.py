"""The table of a connection's phases is total, and each phase ends, whatever the client does or does not do."""

import asyncio
from typing import Any, Final

import pytest

from libs.web.server.connection_phases import TABLE, Action, ConnectionPhase
from libs.web.server.http_connection import HttpConnection
from tests.libs.web.server.driven_connection import Driver, Socket

HEAD: Final = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n"
REACHED_BY: Final = {
    ConnectionPhase.IDLE: (b"", False),
    ConnectionPhase.HEADERS: (HEAD, False),
    ConnectionPhase.BODY: (HEAD + b"\r\nbody", False),
    ConnectionPhase.ANSWER: (HEAD + b"\r\nwhole bod", False),
    ConnectionPhase.REST: (HEAD + b"\r\nbody", True),
    ConnectionPhase.LAST: (HEAD + b"Connection: close\r\n\r\nwhole bod", False),
    ConnectionPhase.END: (b"no request", False),
}
"""What a client has sent in a phase, and whether the app has answered before it has read the body."""


class App:
    """Answers at once, or once `going_on` is set."""

    def __init__(self, is_early: bool) -> None:
        self.going_on = asyncio.Event()
        if is_early:
            self.going_on.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.going_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})


async def reached(phase: ConnectionPhase) -> tuple[App, Driver, HttpConnection, Socket]:
    """A connection in this phase, with its app and server."""
    sent, is_early = REACHED_BY[phase]
    app = App(is_early)
    driver = Driver(app)
    connection, socket = driver.connect()
    connection.data_received(sent)
    assert await driver.until(lambda: connection.phase is phase)
    return app, driver, connection, socket


def test_what_closes_the_sending_side_or_the_connection_leads_to_the_end() -> None:
    ends = {
        Action.REFUSE: ConnectionPhase.END,
        Action.FINISH: ConnectionPhase.END,
        Action.STOP: ConnectionPhase.LAST,
        Action.CLOSE: ConnectionPhase.CLOSED,
        Action.ABORT: ConnectionPhase.CLOSED,
    }
    for row in TABLE.values():
        for step in row.values():
            assert step.action is Action.NOTHING or step.phase is ends[step.action]


@pytest.mark.parametrize("phase", REACHED_BY)
async def test_each_phase_ends_in_time_alone(phase: ConnectionPhase) -> None:
    app, driver, connection, socket = await reached(phase)
    if phase in (ConnectionPhase.ANSWER, ConnectionPhase.LAST):
        driver.pass_time()
        assert connection.phase is phase, "the app may take its time"
        app.going_on.set()
        assert await driver.until(lambda: connection.phase in (ConnectionPhase.IDLE, ConnectionPhase.END))
    app.going_on.set()
    for _ in range(2):  # a late request is refused, and then its end is waited for
        driver.pass_time()
    assert connection.phase is ConnectionPhase.CLOSED
    assert socket.is_closed
    await driver.lose(connection, socket)
    assert len(driver.limits) == 0
    assert not driver.state.tasks


@pytest.mark.parametrize("phase", REACHED_BY)
@pytest.mark.parametrize("junk", [b"\r\n", b"x", b"\x00", b"0\r\n", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"])
async def test_each_phase_ends_under_any_input(phase: ConnectionPhase, junk: bytes) -> None:
    """Input that goes on and on is read, held or dropped, within bounds."""
    app, driver, connection, socket = await reached(phase)
    packet = junk * (200_000 // len(junk))
    for _ in range(200):
        if socket.is_closed or socket.is_paused:
            break
        connection.data_received(packet)
        await driver.settle(1)
    assert len(connection._held) <= len(packet)
    app.going_on.set()
    assert await driver.until(lambda: not connection._held and not driver.state.tasks)
    for _ in range(2):
        driver.pass_time()
    assert socket.is_closed
    await driver.lose(connection, socket)
    assert not driver.state.tasks


@pytest.mark.parametrize("phase", REACHED_BY)
async def test_each_phase_ends_when_the_client_is_gone_or_evicted(phase: ConnectionPhase) -> None:
    for is_evicted in (False, True):
        app, driver, connection, socket = await reached(phase)
        if is_evicted:
            connection.evict()
            assert socket.is_closed
        app.going_on.set()
        await driver.lose(connection, socket)
        assert len(driver.limits) == 0
        assert not driver.state.tasks
