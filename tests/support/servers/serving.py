"""Runs one of our servers at a free port, with plain TCP clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI

from libs.web.server.http_service import HttpServer
from libs.web.settings import HttpSettings
from tests.support.loop_turns import Turns, measured_turns


@dataclass
class Served:
    server: HttpServer
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def open(self, address: str = "127.0.0.1") -> Client:
        """Open a connection from this loopback address."""
        return Client(*await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0)))


@dataclass
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, text: str | bytes) -> None:
        self.writer.write(text if isinstance(text, bytes) else text.replace("\n", "\r\n").encode())

    async def answer(self) -> tuple[int, bytes]:
        """Read the next answer, which has a Content-Length; return status and body."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].split()[0])
        return int(head.split()[1]), await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        """Read until the server closes the connection."""
        return await self.reader.read()

    def close(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def served(app: FastAPI, **settings: Any) -> AsyncIterator[Served]:
    server = HttpServer(app, HttpSettings(**{"port": 0, "drain_delay_s": 0, **settings}))
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup()
    serving = asyncio.create_task(server.main_loop())
    try:
        yield Served(server, server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        await serving
        await server.shutdown()


@asynccontextmanager
async def served_apart(
    app: AbstractAsyncContextManager[FastAPI], **settings: Any
) -> AsyncIterator[tuple[FastAPI, str, Turns]]:
    """Serve the app in a thread, whose time clients do not take; yield it, its address and the loop's turns."""
    ready: Future[tuple[FastAPI, str, Turns]] = Future()
    ended: Future[None] = Future()

    async def serve() -> None:
        with measured_turns() as turns:
            async with app as opened, served(opened, **settings) as server:
                ready.set_result((opened, server.url, turns))
                await asyncio.wrap_future(ended)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    running = asyncio.get_running_loop().run_in_executor(None, run)
    try:
        yield await asyncio.wrap_future(ready)
    finally:
        ended.set_result(None)
        await running
