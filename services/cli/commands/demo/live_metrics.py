"""Reads the metrics on the demo's screen: the API's counts, and the projector's lag."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import httpx

from libs.contracts.position_token import encode_positions
from libs.deployment.deployment import Deployment
from libs.tally.errors import TallyError
from libs.views.reply_types import PartitionState

EVERY_S: Final = 0.4
STALE_S: Final = 2.5
"""A lag measured longer ago than this is not shown: a server is unavailable."""


class Measured(NamedTuple):
    """States of the partitions, and the log's ends read after them: no state is past its end."""

    states: Mapping[int, PartitionState] = {}
    ends: Mapping[int, int] = {}
    at: float = -STALE_S
    """Time of the monotonic clock."""


class LiveMetrics:
    """Polls counts and lag until cancelled; failed requests are retried."""

    def __init__(self, client: httpx.AsyncClient, contest: str, deployment: Deployment) -> None:
        self.counts: dict[str, Any] | None = None
        """Latest vote count record."""
        self._client = client
        self._path = f"/contests/{contest}/vote_updates/"
        self._topic = deployment.votes
        self._reader = deployment.reader
        self._views = deployment.vote_views
        self._etag = ""
        self._measured = Measured()

    @property
    def lag(self) -> int | None:
        """Number of log records not folded yet; None when there is no recent measurement."""
        states, ends, at = self._measured
        if time.monotonic() - at > STALE_S:
            return None
        return sum(ends.values()) - sum(state.position.offset for state in states.values())

    @property
    def closed_gates(self) -> int:
        """Number of partitions that accept no votes at present (gate closed)."""
        return sum(not state.open for state in self._measured.states.values())

    @property
    def pending(self) -> int:
        """Number of votes reserved and not folded yet."""
        return sum(state.pending for state in self._measured.states.values())

    async def watch(self) -> None:
        async def poll(read: Any) -> None:
            while True:
                with suppress(TallyError, httpx.HTTPError):
                    await read()
                await asyncio.sleep(EVERY_S)

        await asyncio.gather(poll(self.read_counts), poll(self.read_lag))

    async def read_counts(self) -> None:
        """Read the vote count record. Raises `httpx.HTTPError`."""
        answer = await self._client.get(
            self._path, params={"sources": "true"}, headers={"if-none-match": self._etag}
        )
        if answer.status_code == httpx.codes.OK:
            self.counts = answer.json()
            self._etag = answer.headers.get("etag", "")

    async def read_final_counts(self) -> None:
        """Read the counts at the measured positions: `min_position` prevents an older, cached response."""
        positions = {each: state.position.offset for each, state in self._measured.states.items()}
        answer = await self._client.get(
            self._path, params={"sources": "true", "min_position": encode_positions(positions)}
        )
        answer.raise_for_status()
        self.counts = answer.json()

    async def read_lag(self) -> None:
        """Measure the lag. Raises `LogUnavailable` and `ViewsUnavailable`."""
        partitions = self._topic.numbers
        states = await asyncio.gather(*map(self._views.state, partitions))
        ends = await self._reader.end_offsets(self._topic.name, partitions)
        self._measured = Measured(dict(zip(partitions, states, strict=True)), ends, time.monotonic())

    async def wait_until_folded(self, timeout_s: float) -> bool:
        """Return whether the views reach the log's end within `timeout_s`, with nothing pending."""
        deadline = time.monotonic() + timeout_s
        while True:
            with suppress(TallyError):
                await self.read_lag()
                if self.lag == 0 and self.pending == 0 and self.closed_gates == 0:
                    return True
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.1)
