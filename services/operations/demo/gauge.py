"""What the screen shows of the service: counts as any dashboard reads them, and how far the fold is behind."""

import asyncio
import time
from contextlib import suppress
from typing import Any, Final

import httpx

from libs.contracts.tokens import encode_positions
from libs.kafka.log import LogReader
from libs.tally.errors import TallyError
from libs.views.client import Valkey
from services.operations.connect import Stack
from services.operations.standing import VotesPartition, votes_status

EVERY_S: Final = 0.4
STALE_S: Final = 2.5
"""A lag measured longer ago than this is not shown any more: a server is away."""


class Gauge:
    """Reads until cancelled; whoever is away is asked again."""

    def __init__(
        self, client: httpx.AsyncClient, contest: str, stack: Stack, reader: LogReader, valkey: Valkey
    ) -> None:
        self.counts: dict[str, Any] | None = None
        """The vote count record, as last read."""
        self._client = client
        self._path = f"/contests/{contest}/vote_updates/"
        self._stack = stack
        self._reader = reader
        self._valkey = valkey
        self._etag = ""
        self._votes: list[VotesPartition] = []
        self._measured = 0.0

    @property
    def lag(self) -> int | None:
        """Records in the log that the views do not have yet; None when that cannot be told."""
        if time.monotonic() - self._measured > STALE_S:
            return None
        return sum(row.lag for row in self._votes)

    @property
    def shut(self) -> int:
        """Partitions that take no votes at the moment."""
        return sum(not row.open for row in self._votes)

    @property
    def pending(self) -> int:
        """Votes reserved and not folded yet."""
        return sum(row.pending for row in self._votes)

    async def watch(self) -> None:
        async def often(read: Any) -> None:
            while True:
                with suppress(TallyError, httpx.HTTPError):
                    await read()
                await asyncio.sleep(EVERY_S)

        await asyncio.gather(often(self.read_counts), often(self.read_lag))

    async def read_counts(self) -> None:
        """Raises what httpx raises."""
        answer = await self._client.get(
            self._path, params={"sources": "true"}, headers={"if-none-match": self._etag}
        )
        if answer.status_code == httpx.codes.OK:
            self.counts = answer.json()
            self._etag = answer.headers.get("etag", "")

    async def read_final_counts(self) -> None:
        """Once the fold is at the log's end: an answer may be a moment old, so that moment is waited for."""
        positions = {row.partition: row.position for row in self._votes}
        answer = await self._client.get(
            self._path, params={"sources": "true", "min_position": encode_positions(positions)}
        )
        answer.raise_for_status()
        self.counts = answer.json()

    async def read_lag(self) -> None:
        """Raises `LogUnavailable` and `ViewsUnavailable`."""
        self._votes = await votes_status(self._reader, self._valkey, self._stack)
        self._measured = time.monotonic()

    async def wait_until_folded(self, timeout_s: float) -> bool:
        """Whether the views have come to the log's end, with nothing pending, within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while True:
            with suppress(TallyError):
                await self.read_lag()
                if self.lag == 0 and self.pending == 0 and self.shut == 0:
                    return True
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.1)
