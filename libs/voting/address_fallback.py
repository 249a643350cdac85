"""Limits of addresses whose counters do not respond: counted by this process until they respond again.

The counters of an address lie anywhere in a cluster, so a lost shard would refuse votes of voters whose own
partition is well. The limit is exact in fair weather only, so these votes are not refused: each process admits up
to the limit by itself. Once the counter responds, what was used meanwhile is added to it.
"""

import asyncio
import time
from contextvars import Context
from typing import Final

from libs.tally.contest import UNLIMITED
from libs.tally.errors import ViewsUnavailable
from libs.views.address_counters import ADDRESS_LIFE_S, AddressAnswer, AddressCounters, Counter, Take, Taken

MOST_USES: Final = 100_000
"""Maximum number of uses held in memory; further votes are refused until the counters respond."""
RESTORE_S: Final = 0.5
"""Interval of the attempts to add the uses to their counters."""
AT_ONCE: Final = 100


class AddressFallback:
    """Uses of counters that do not respond, by counter and taker."""

    def __init__(self, counters: AddressCounters) -> None:
        self._counters = counters
        self._uses: dict[Counter, dict[str, int]] = {}
        self._expiries: dict[Counter, int] = {}
        self._count = 0
        self._restoring: asyncio.Task[None] | None = None

    def take(self, take: Take) -> AddressAnswer | None:
        """Use votes as the counter would, by this process's uses; None if it holds too much."""
        uses = self._uses.get(take.counter, {})
        if take.taker in uses:
            return AddressAnswer(Taken.HAD, 0)
        used = sum(uses.values())
        if take.limit != UNLIMITED and used + take.votes > take.limit:
            return AddressAnswer(Taken.FULL, used)
        if self._count >= MOST_USES:
            return None
        self._uses.setdefault(take.counter, {})[take.taker] = take.votes
        self._expiries[take.counter] = take.expires_at_s
        self._count += 1
        if self._restoring is None:
            # it outlives the request that starts it, so it has a context of its own
            self._restoring = asyncio.create_task(self._restore_all(), context=Context())
        return AddressAnswer(Taken.TAKEN, used)

    def give(self, counter: Counter, taker: str) -> None:
        """Give back a taker's votes."""
        if self._uses.get(counter, {}).pop(taker, None) is not None:
            self._count -= 1

    async def _restore_all(self) -> None:
        try:
            while self._uses:
                await asyncio.sleep(RESTORE_S)
                counters = list(self._uses)
                for at in range(0, len(counters), AT_ONCE):
                    await asyncio.gather(*map(self._restore, counters[at : at + AT_ONCE]))
        finally:
            self._restoring = None

    async def _restore(self, counter: Counter) -> None:
        uses = dict(self._uses[counter])
        expires_at_s = self._expiries[counter] or int(time.time()) + ADDRESS_LIFE_S
        try:
            await self._counters.refill(counter, list(uses.items()), expires_at_s)
            for taker in uses.keys() - self._uses[counter].keys():
                await self._counters.give(*counter, taker)  # given back meanwhile
        except ViewsUnavailable:
            return
        for taker in uses:
            self.give(counter, taker)
        if not self._uses[counter]:
            del self._uses[counter], self._expiries[counter]
