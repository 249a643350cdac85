"""A TCP proxy before a server; a test can shut, freeze, delay and open it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit


class Direction:
    """Bytes of one direction pass, at once or after a delay, or are held back."""

    def __init__(self) -> None:
        self.passing = asyncio.Event()
        self.passing.set()
        self.delay_s = 0.0
        self.held = 0

    async def until_passing(self) -> None:
        self.held += bool(self.delay_s or not self.passing.is_set())
        await asyncio.sleep(self.delay_s)
        await self.passing.wait()


class Proxy:
    """A proxy, open at first; `address` is host:port."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._is_open = True
        self._requests, self._replies = Direction(), Direction()
        self._through: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Future[Any]] = set()
        self.address = ""
        self.refused = 0
        """Connections that were refused while it was shut."""

    @property
    def held(self) -> int:
        """Chunks of bytes that were held back."""
        return self._requests.held + self._replies.held

    def url(self, url: str) -> str:
        """Return the server's `url` with the proxy's address."""
        user, at, _ = urlsplit(url).netloc.rpartition("@")
        return urlsplit(url)._replace(netloc=f"{user}{at}{self.address}").geturl()

    def shut(self) -> None:
        """End all connections, and every new one."""
        self._is_open = False
        for writer in self._through:
            writer.close()
        self._through = set()

    def freeze(self, *, only_replies: bool = False) -> None:
        """Accept connections and bytes, but forward none, as a stopped process does; or only no replies."""
        self._replies.passing.clear()
        if not only_replies:
            self._requests.passing.clear()

    def delay(self, seconds: float) -> None:
        """Hold back all that arrives for a time, in both directions."""
        self._requests.delay_s = self._replies.delay_s = seconds

    def open(self) -> None:
        self._is_open = True
        for direction in (self._requests, self._replies):
            direction.passing.set()
            direction.delay_s = 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open:
            self.refused += 1
            writer.close()
            return
        try:
            theirs, ours = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.close()
            return
        self._through |= {writer, ours}
        serving = asyncio.gather(pump(reader, ours, self._requests), pump(theirs, writer, self._replies))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        await serving

    async def end(self) -> None:
        """Close all connections, and wait until they are."""
        self.open()
        self.shut()
        await asyncio.gather(*self._serving, return_exceptions=True)


@asynccontextmanager
async def proxy(server: str) -> AsyncIterator[Proxy]:
    """Open a proxy before `server`: a URL, or host:port."""
    where = urlsplit(server if "://" in server else f"//{server}")
    assert where.hostname is not None
    assert where.port is not None
    proxy = Proxy(where.hostname, where.port)
    listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    host, port = listener.sockets[0].getsockname()[:2]
    proxy.address = f"{host}:{port}"
    try:
        yield proxy
    finally:
        listener.close()
        await proxy.end()


async def pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: Direction | None = None
) -> None:
    """Forward bytes as `direction` says, until either end closes."""
    try:
        while data := await reader.read(65_536):
            if direction is not None:
                await direction.until_passing()
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
