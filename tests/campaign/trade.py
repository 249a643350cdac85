"""Buyers of votes, of whom some are refunded, and a source that reports counts."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.campaign.clients import Crowd
from tests.support.clients.purchases_over_http import PURCHASES, becomes, purchase, wait_for_paid_votes
from tests.support.clients.sources import Source
from tests.support.clients.voting import Api, Contest, hours_from_now, new_id
from tests.support.eventually import eventually

TRADER: Final = -2
"""Seat of buyers and sources."""
VOTES: Final = 10
"""Votes of a purchase."""


@dataclass
class Trade:
    """What was bought, refunded and reported, each sent again until it was answered."""

    crowd: Crowd
    contest: Contest
    source: Source
    rng: Random
    refunded: dict[str, bool] = field(default_factory=dict)
    """True for a purchase that was refunded, by its key."""
    reported: dict[str, int] = field(default_factory=dict)
    """The latest counts by mapped id."""

    async def work(self) -> None:
        while not self.crowd.stop.is_set():
            await (self.buy() if self.rng.random() < 0.6 else self.report())
            await asyncio.sleep(self.rng.uniform(0.3, 1.5))

    async def buy(self) -> None:
        """Buy votes, at times twice with one token, and refund some purchases."""
        body, chance = purchase(self.contest, VOTES, user=new_id()), self.rng.random()
        copies = 2 if chance < 0.2 else 1
        [record, *_] = await asyncio.gather(*(self._insist(PURCHASES, body) for _ in range(copies)))
        if "key" not in record:  # an untrue answer
            return
        self.refunded[record["key"]] = False
        if chance > 0.7:
            await asyncio.sleep(self.rng.random())
            await self._insist(f"{PURCHASES}/refund", {"purchase_token": body["purchase_token"]})
            self.refunded[record["key"]] = True

    async def report(self) -> None:
        """Report higher counts than before, at times twice."""
        for mapped in ("first", "second"):
            self.reported[mapped] = self.reported.get(mapped, 0) + self.rng.randrange(1, 9)
        counts = [{"mapped_id": mapped, "count": count} for mapped, count in self.reported.items()]
        body = {"report_id": new_id(), "counts": counts}
        for _ in range(self.rng.choice((1, 1, 2))):
            await self._insist(f"{self.source.path}/counts", body)

    async def compare(self) -> None:
        """Each purchase is cast or refunded as asked, and its votes and the reported ones count once."""
        try:
            for key, is_refunded in self.refunded.items():
                await becomes(self.crowd.client, {"key": key}, "refunded" if is_refunded else "cast")
            await wait_for_paid_votes(self.contest, VOTES * list(self.refunded.values()).count(False))

            async def is_counted() -> bool:
                assert await self.source.counted() == list(self.reported.values()), self.reported
                return True

            await eventually(is_counted)
        except AssertionError as error:
            self.crowd.oracle.untrue(f"purchases or sources: {error}")

    async def _insist(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self.crowd.demand(TRADER, "POST", path, status=202, json=body)
        return answer.json() if answer.status_code == 202 else {}


async def open_trade(crowd: Crowd, rng: Random) -> Trade:
    api = Api(crowd.client)
    end = hours_from_now(24)
    bought, source = await api.contest(end=end), Source(await api.contest(end=end), "sms")
    await source.map("first", "second", mode="cumulative", is_in_total=True)
    return Trade(crowd, bought, source, rng)
