"""Readers of the counts of a contest whose votes are only added: what they see never goes back."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import httpx

from tests.campaign.clients import Crowd
from tests.campaign.oracle import Poll
from tests.support.clients.retried import final_answer
from tests.support.eventually import eventually

PAUSE_S: Final = 0.5
CONNECTED_S: Final = 45.0
"""A stream is left and opened again after that time, or when it breaks."""


@dataclass
class Readers:
    crowd: Crowd
    streamed: int = 0
    """The latest count that the stream has shown."""
    streams: int = 0

    @property
    def poll(self) -> Poll:
        return self.crowd.polls["batches"]

    async def read_forwards(self) -> None:
        """Read the counts at the position of the last answer."""
        path, position, last = f"{self.poll.contest.path}/vote_updates/", "", 0
        while not self.crowd.stop.is_set():
            query = {"min_position": position} if position else {}
            with suppress(httpx.TransportError):
                answer = await self.crowd.client.get(path, params=query)
                if answer.status_code == 200:
                    if answer.json()["count"] < last:
                        self.crowd.oracle.untrue(
                            f"a reader with min_position saw {answer.json()['count']} after {last}"
                        )
                    position, last = answer.headers["tally-position"], answer.json()["count"]
                elif answer.status_code != 503:
                    self.crowd.oracle.untrue(f"a reader is answered {answer.status_code} {answer.text}")
            await asyncio.sleep(PAUSE_S)

    async def follow_stream(self) -> None:
        """Keep a stream of counts open, also after it broke, until it was stopped and shows the final count."""
        while not self.crowd.stop.is_set():
            with suppress(httpx.TransportError, TimeoutError):
                async with asyncio.timeout(CONNECTED_S):
                    await self._read_stream()
            await asyncio.sleep(PAUSE_S)

    async def compare(self) -> None:
        """A new stream shows the counts that are read."""
        answer = await final_answer(lambda: self.crowd.client.get(f"{self.poll.contest.path}/vote_updates/"))
        assert answer.status_code == 200, answer.text
        count = answer.json()["count"]

        async def shows_it() -> bool:
            with suppress(httpx.TransportError, TimeoutError):
                async with asyncio.timeout(5):
                    await self._read_stream(until=count)
            assert self.streamed == count, f"the stream shows {self.streamed} votes, a reader sees {count}"
            return True

        try:
            await eventually(shows_it)
        except AssertionError as error:
            self.crowd.oracle.untrue(str(error))

    async def _read_stream(self, until: int | None = None) -> None:
        path, event = f"{self.poll.contest.path}/vote_updates/stream", ""
        async with self.crowd.client.stream("GET", path) as response:
            if response.status_code != 200:
                return
            self.streams += 1
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "event":
                    event = value
                elif name == "data" and event == "counts":
                    self._see(json.loads(value)["count"])
                if self.streamed == until:
                    return

    def _see(self, count: int) -> None:
        if count < self.streamed:
            self.crowd.oracle.untrue(f"a stream showed {count} votes after {self.streamed}")
        self.streamed = count
