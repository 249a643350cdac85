"""Drives one `HttpConnection` in memory: no socket, no clock, and only turns of the event loop."""

import asyncio
from typing import Any, Final

from uvicorn.server import ServerState

from libs.web.door.client_address import Proxies
from libs.web.server.connection_limits import ConnectionLimits
from libs.web.server.connection_phases import ConnectionPhase
from libs.web.server.direct_routes import DirectRoutes
from libs.web.server.http_connection import HttpConfig, HttpConnection
from libs.web.settings import HostSettings

PEER: Final = ("192.0.2.1", 1234)
END: Final = b""
"""The end of the sending side, among what is written."""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Socket(asyncio.Transport):
    """The transport below a connection: keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_paused = False
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def write_eof(self) -> None:
        self.writes.append(END)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": PEER, "sockname": ("192.0.2.2", 80)}.get(name, default)


class Driver:
    """Connections of one server; `app` is its ASGI app."""

    def __init__(self, app: Any, direct: DirectRoutes | None = None, **settings: Any) -> None:
        self.clock = Clock()
        self.limits = ConnectionLimits(HostSettings(**settings), Proxies(), self.clock)
        self.config = HttpConfig(app, self.limits, direct, interface="asgi3")
        self.config.load()
        self.state = ServerState()

    def connect(self) -> tuple[HttpConnection, Socket]:
        connection, socket = HttpConnection(self.config, self.state, {}), Socket()
        connection.connection_made(socket)
        return connection, socket

    async def until(self, condition: Any, turns: int = 50_000) -> bool:
        """Run turns of the event loop until `condition` holds."""
        for _ in range(turns):
            if condition():
                return True
            await asyncio.sleep(0)
        return bool(condition())

    async def settle(self, turns: int = 10) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    def pass_time(self, seconds: float = 1000.0) -> None:
        """Let every deadline pass."""
        self.clock.now += seconds
        self.limits.sweep()

    async def lose(self, connection: HttpConnection, socket: Socket) -> None:
        """The end of the connection, as the event loop reports it."""
        socket.is_closed = True
        connection.connection_lost(None)
        assert connection.phase is ConnectionPhase.CLOSED
        await self.until(lambda: not self.state.tasks)
