"""Operators who change a contest's rules, close and reopen it, while everything else goes wrong."""

import asyncio
import math
import time
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.campaign.clients import Crowd
from tests.campaign.oracle import Rule
from tests.support.clients.voting import hours_from_now

OPERATOR: Final = -1
"""Seat of the operators."""
CLOSED_S: Final = 2.0
"""Time between two reads of final counts."""


@dataclass
class Operator:
    """Changes, closes and reopens the contest `changing`, one after the other, by one random stream."""

    crowd: Crowd
    operations_url: str
    rng: Random

    async def work(self) -> None:
        while not self.crowd.stop.is_set():
            await asyncio.sleep(self.rng.uniform(2, 8))
            if self.rng.random() < 0.6:
                await self.change_limit()
            else:
                await self.close_and_reopen()

    async def change_limit(self) -> None:
        poll, most = self.crowd.polls["changing"], self.rng.choice([2, 3, 4])
        rule = Rule(most, time.monotonic())
        poll.rules.append(rule)
        await self._patch({"free": {"max_contest": most}})
        rule.answered_at = time.monotonic()

    async def close_and_reopen(self) -> None:
        """Close it; the counts are the same from when they are said to be final until it is reopened."""
        poll, counts = self.crowd.polls["changing"], await self.close()
        closed = [time.monotonic(), math.inf]
        poll.closed.append(closed)
        for _ in range(3):
            await asyncio.sleep(CLOSED_S)
            again = await self._final_counts()
            if again != counts:
                self.crowd.oracle.untrue(f"final counts were {counts}, and are {again}")
        closed[1] = time.monotonic()
        url = f"{self.operations_url}/operations{poll.contest.path}/reopen"
        await self.crowd.demand(OPERATOR, "POST", url, json={"end": hours_from_now(1)})

    async def close(self) -> dict[str, Any]:
        """Return the final counts."""
        await self._patch({"end": hours_from_now(0)})
        return await self._final_counts()

    async def _final_counts(self) -> dict[str, Any]:
        path = f"{self.crowd.polls['changing'].contest.path}/vote_updates/"
        while True:
            answer = await self.crowd.demand(OPERATOR, "GET", path)
            if answer.headers.get("tally-final") == "final":
                found: dict[str, Any] = answer.json()
                return found
            await asyncio.sleep(0.3)

    async def _patch(self, config: dict[str, Any]) -> None:
        path = self.crowd.polls["changing"].contest.path
        await self.crowd.demand(OPERATOR, "PATCH", path, json={"contest_config": config})
