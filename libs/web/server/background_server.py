"""HTTP server in the background of a process."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from libs.web.server.connection_limits import ConnectionLimits
from libs.web.server.http_connection import HttpConfig
from libs.web.settings import HostSettings

BACKLOG = 2048
"""Connections that wait to be accepted, as of uvicorn's own sockets."""

logger = logging.getLogger(__name__)


@asynccontextmanager
async def serve_in_background(app: ASGIApp, settings: HostSettings, host: str, port: int) -> AsyncIterator[None]:
    """Serve `app` while the context is open; signals stay with the process.

    If the address cannot be bound, logs an error and continues without a server.
    """
    try:
        listening = listen(host, port)
    except OSError as error:
        logger.error("cannot listen at %s, port %d: %s", host, port, error)
        yield
        return
    async with serve_listening(app, settings, listening):
        yield


@asynccontextmanager
async def serve_listening(app: ASGIApp, settings: HostSettings, listening: socket.socket) -> AsyncIterator[None]:
    """Serve `app` on a listening socket, as `serve_in_background`."""
    config = HttpConfig(app, ConnectionLimits(settings, settings.proxies()), timeout_graceful_shutdown=1)
    server = _BackgroundServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait({serving})


def listen(host: str, port: int, *, reuse_port: bool = False) -> socket.socket:
    """Return a listening socket; with `reuse_port`, other processes may listen there, too. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG, reuse_port=reuse_port)


class _BackgroundServer(uvicorn.Server):
    def __init__(self, config: HttpConfig) -> None:
        super().__init__(config)
        self._connection_limits = config.limits

    async def on_tick(self, counter: int) -> bool:
        self._connection_limits.sweep()
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
