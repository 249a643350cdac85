"""A second server beside a process's own work."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from libs.web.connection_limits import ConnectionLimits
from libs.web.protocol import BoundedConfig
from libs.web.settings import HostSettings

logger = logging.getLogger(__name__)


@asynccontextmanager
async def served_beside(app: ASGIApp, settings: HostSettings, host: str, port: int) -> AsyncIterator[None]:
    """Serve `app` for as long as the context is open. The signals are left to the process.

    Where nobody can listen there, that is said, and the work goes on without.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        logger.error("nothing is served at %s, port %d: %s", host, port, error)
        yield
        return
    door = ConnectionLimits(settings, settings.proxies())
    config = BoundedConfig(app, door, timeout_graceful_shutdown=1)
    server = _Guest(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait({serving})


class _Guest(uvicorn.Server):
    def __init__(self, config: BoundedConfig) -> None:
        super().__init__(config)
        self._door = config.door

    async def on_tick(self, counter: int) -> bool:
        self._door.sweep()
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
