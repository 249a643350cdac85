"""Fetches callers' URLs with a client that is loaded and opened by the first one: most processes never need it."""

import asyncio
from contextlib import AsyncExitStack
from importlib import import_module
from typing import IO, Protocol

from libs.media.ssrf_guard import Allowed


class NotFetched(ValueError):
    """The URL cannot be fetched, or is not allowed; the message is safe to show."""


class UrlFetcher(Protocol):
    """Downloads the content of a URL into a file."""

    async def fetch(self, url: str, into: IO[bytes]) -> None:
        """Download the URL's content. Raises `NotFetched`."""


class FetcherOnDemand:
    """Fetches with the fetcher that `libs.media.public_address_fetcher` opens with these arguments."""

    def __init__(self, allowed: Allowed, max_bytes: int, timeout_s: float) -> None:
        self._arguments = allowed, max_bytes, timeout_s
        self._opened = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._fetcher: UrlFetcher | None = None

    async def fetch(self, url: str, into: IO[bytes]) -> None:
        """Download the URL's content. Raises `NotFetched`."""
        fetcher = self._fetcher or await self._open()
        await fetcher.fetch(url, into)

    async def _open(self) -> UrlFetcher:
        async with self._opening:
            if self._fetcher is not None:
                return self._fetcher
            module = await asyncio.to_thread(import_module, "libs.media.public_address_fetcher")
            opened: UrlFetcher = await self._opened.enter_async_context(module.open_fetcher(*self._arguments))
            self._fetcher = opened
            return opened

    async def close(self) -> None:
        await self._opened.aclose()
