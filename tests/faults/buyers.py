"""Buyers of votes who retry until they are answered, and the check of what their purchases count."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.clients.purchases_over_http import PURCHASES, becomes, purchase, wait_for_paid_votes
from tests.support.clients.retried import final_answer
from tests.support.clients.voting import Contest, new_id
from tests.support.eventually import eventually

VOTES = 10
"""Votes of a purchase."""
PAUSE_S = 0.2
REFUNDED = 0.3
"""Share of the purchases that are refunded."""


@dataclass
class Buyers:
    """Buyers who buy until stopped, and send a purchase again until it is answered for good."""

    contest: Contest
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    refunded: dict[str, bool] = field(default_factory=dict)
    """True for a purchase that was refunded, by its key."""

    async def buy(self) -> None:
        """One purchase after the other, some sent twice and some refunded."""
        while not self.stop.is_set():
            body = purchase(self.contest, VOTES, user=new_id())
            copies = random.choice((1, 1, 2))
            [record, *_] = await asyncio.gather(*(self._insist(PURCHASES, body) for _ in range(copies)))
            is_refunded = random.random() < REFUNDED
            if is_refunded:
                await asyncio.sleep(random.random())
                await self._insist(f"{PURCHASES}/refund", {"purchase_token": body["purchase_token"]})
            self.refunded[record["key"]] = is_refunded
            await asyncio.sleep(PAUSE_S)

    async def buy_more(self, purchases: int) -> None:
        before = len(self.refunded)
        await eventually(lambda: len(self.refunded) >= before + purchases)

    async def settled(self) -> None:
        """Without help: each purchase is cast or refunded as it was asked for, and its votes count once."""
        for key, is_refunded in self.refunded.items():
            await becomes(self.contest.client, {"key": key}, "refunded" if is_refunded else "cast")
        await wait_for_paid_votes(self.contest, VOTES * list(self.refunded.values()).count(False))

    async def _insist(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer: httpx.Response = await final_answer(lambda: self.contest.client.post(path, json=body))
        assert answer.status_code == 202, answer.text
        return answer.json()
