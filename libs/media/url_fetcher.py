"""Fetches callers' URLs by a client that is loaded and opened on first use: most processes never need it."""

import asyncio
from importlib import import_module
from typing import IO, TYPE_CHECKING

from libs.media.allowed_addresses import Allowed

if TYPE_CHECKING:
    from libs.media.public_address_fetcher import Fetcher


class FetcherOnDemand:
    """Fetches with the `Fetcher` that it opens with these arguments on first use."""

    def __init__(self, allowed: Allowed, max_bytes: int, timeout_s: float) -> None:
        self._arguments = allowed, max_bytes, timeout_s
        self._fetcher: Fetcher | None = None

    async def fetch(self, url: str, into: IO[bytes]) -> None:
        """Download the URL's content. Raises `NotFetched`."""
        if self._fetcher is None:
            module = await asyncio.to_thread(import_module, "libs.media.public_address_fetcher")
            self._fetcher = self._fetcher or module.Fetcher(*self._arguments)
        await self._fetcher.fetch(url, into)

    async def close(self) -> None:
        if self._fetcher is not None:
            await self._fetcher.close()
