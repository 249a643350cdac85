"""Thousands of clients of one stream, which note when they receive a count."""

import asyncio
import time
from collections.abc import Awaitable
from typing import Any

CONNECTING = 200
RECEIVED_S = 60.0


class Listeners:
    """Clients that note when they receive `wanted`."""

    def __init__(self, port: int, path: str, key: str = "") -> None:
        self.request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
        self.wanted, self.round = b"", 0
        self.times: list[float] = []
        self._port = port
        self._clients: list[Listener] = []
        self._all = asyncio.Event()

    async def connect(self, count: int) -> float:
        """Return the seconds until all have received their first counts."""
        began = time.perf_counter()
        waiting = asyncio.Semaphore(CONNECTING)

        async def one() -> None:
            async with waiting:
                loop = asyncio.get_running_loop()
                _, client = await loop.create_connection(lambda: Listener(self), "127.0.0.1", self._port)
                self._clients.append(client)
                await client.first

        await asyncio.gather(*(one() for _ in range(count)))
        return time.perf_counter() - began

    async def receive(self, number: int, saying: Awaitable[Any]) -> list[float]:
        """Return the seconds until each has received the count of so many votes; `saying` causes it."""
        self.wanted, self.round, self.times = b'"count":%d,' % number, number, []
        self._all.clear()
        began = time.perf_counter()
        await saying
        async with asyncio.timeout(RECEIVED_S):
            await self._all.wait()
        return [at - began for at in self.times]

    def received(self) -> None:
        self.times.append(time.perf_counter())
        if len(self.times) == len(self._clients):
            self._all.set()

    def disconnect(self) -> None:
        for client in self._clients:
            client.transport.abort()


class Listener(asyncio.Protocol):
    """One client."""

    __slots__ = ("_listeners", "_round", "first", "transport")

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self._round = 0
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self._listeners.request)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.first.done():
            self.first.set_exception(ConnectionError("The server closed a subscriber's connection."))

    def data_received(self, data: bytes) -> None:
        if not self.first.done():
            if b"event: counts" in data:
                self.first.set_result(None)
            elif data.startswith(b"HTTP/1.1 ") and b" 200 " not in data[:16]:
                self.first.set_exception(ConnectionError(data.decode(errors="replace")))
        elif self._round < self._listeners.round and self._listeners.wanted in data:
            self._round = self._listeners.round
            self._listeners.received()
