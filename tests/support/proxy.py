"""A TCP proxy before a server; a test can shut, freeze and open it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit


class Proxy:
    """A proxy, open at first; `address` is host:port."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._is_open = True
        self._passing = asyncio.Event()
        self._passing.set()
        self._through: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Future[Any]] = set()
        self.address = ""
        self.refused = 0
        """Connections that were refused while it was shut."""

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

    def freeze(self) -> None:
        """Accept connections and bytes, but forward none, as a stopped process does."""
        self._passing.clear()

    def open(self) -> None:
        self._is_open = True
        self._passing.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_open:
            self.refused += 1
            writer.close()
            return
        theirs, ours = await asyncio.open_connection(self._host, self._port)
        self._through |= {writer, ours}
        serving = asyncio.gather(pump(reader, ours, self._passing), pump(theirs, writer, self._passing))
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
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passing: asyncio.Event | None = None
) -> None:
    """Forward bytes while `passing` is set, until either end closes."""
    try:
        while data := await reader.read(65_536):
            if passing is not None:
                await passing.wait()
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
