"""A TCP proxy before one server; a test can shut, freeze and open it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from tests.support.servers.network import LOOPBACK, Break, Network, Pace, Rule, held, open_network

CLIENTS: Final = ("",)
"""Processes without a name: all."""
SERVERS: Final = ("server",)


class Proxy:
    """A proxy, open at first; `address` is host:port."""

    def __init__(self, network: Network, address: str) -> None:
        self.address = address
        self._network = network
        self._rules: list[Rule] = []
        self._refused = 0

    @property
    def refused(self) -> int:
        """Connections that were ended or refused while it was shut."""
        return self._refused + sum(rule.ended.total() for rule in self._rules)

    def url(self, url: str) -> str:
        """Return the server's `url` with the proxy's address."""
        user, at, _ = urlsplit(url).netloc.rpartition("@")
        return urlsplit(url)._replace(netloc=f"{user}{at}{self.address}").geturl()

    def shut(self) -> None:
        """End all connections, and every new one."""
        self._begin(Break.CUT)

    def freeze(self) -> None:
        """Accept connections and bytes, but forward none, as a stopped process does."""
        self._begin(held)

    def open(self) -> None:
        self._refused = self.refused
        rules, self._rules = self._rules, []
        for rule in rules:
            self._network.end(rule)

    def _begin(self, happens: Pace | Break) -> None:
        for rule in (Rule(CLIENTS, SERVERS, happens), Rule(SERVERS, CLIENTS, happens)):
            self._rules.append(rule)
            self._network.begin(rule)


@asynccontextmanager
async def proxy(server: str) -> AsyncIterator[Proxy]:
    """Open a proxy before `server`: a URL, or host:port."""
    where = urlsplit(server if "://" in server else f"//{server}")
    assert where.hostname is not None
    assert where.port is not None
    async with open_network() as network:
        yield Proxy(network, f"{LOOPBACK}:{await network.open(where.port, *SERVERS, host=where.hostname)}")


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward bytes until either end closes."""
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
