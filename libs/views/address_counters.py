"""How many free votes an address has given a participant: counters of their own, advisory to the fold."""

import asyncio
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from libs.tally.events import VoteRemoved
from libs.views.client import Valkey
from libs.views.serialization import digest

ADDRESS_LIFE_S = 30 * 86_400
"""How long a counter lives where the contest's end does not say."""


REFILLED = 128
"""Most votes of one `refill` call: a millisecond."""

Counter = tuple[str, str, str]
"""Contest, participant, address."""
TakenBefore = tuple[str, int]
"""A taker and its count; 0 where it gave it back."""


class Taken(Enum):
    FULL = 0
    TAKEN = 1
    HAD = 2


class AddressAnswer(NamedTuple):
    """`used` counts what was taken before."""

    taken: Taken
    used: int


class AddressCounters:
    """Exact in fair weather. `address` is a pseudonym; a taker (a vote id, or the voter of a vote that replaces
    others) takes its count once, however often it asks."""

    def __init__(self, valkey: Valkey, namespace: str) -> None:
        self._valkey = valkey
        self._namespace = namespace

    def _key(self, contest: str, participant: str, address: str) -> str:
        return f"{self._namespace}:{{a:{contest}:{participant}:{address}}}"

    async def take(
        self,
        contest: str,
        participant: str,
        address: str,
        taker: str,
        count: int,
        limit: int,
        expires_at_s: int | None = None,
    ) -> AddressAnswer:
        """Take `count` votes unless that exceeds `limit` (-1: none). The counter lives until `expires_at_s`."""
        key = self._key(contest, participant, address)
        args = digest(taker), count, limit, expires_at_s or 0
        taken, used = await self._valkey.call("FCALL", "address_take", 1, key, *args)
        return AddressAnswer(Taken(taken), used)

    async def give(self, contest: str, participant: str, address: str, taker: str) -> None:
        """Give back what a vote took that was refused, or removed."""
        key = self._key(contest, participant, address)
        await self._valkey.call("FCALL", "address_give", 1, key, digest(taker))

    async def refill(self, counter: Counter, taken: Sequence[TakenBefore], expires_at_s: int) -> None:
        """Take again what votes took, in the order of the log, where Valkey may have lost it. Repeatable."""
        key = self._key(*counter)
        for at in range(0, len(taken), REFILLED):
            counts = (word for taker, count in taken[at : at + REFILLED] for word in (digest(taker), count))
            await self._valkey.call("FCALL", "address_refill", 1, key, expires_at_s, *counts)


async def give_back(addresses: AddressCounters, removal: VoteRemoved) -> None:
    """Make room again where the removed vote had taken it, in its own name or its voter's."""
    if removal.address is not None:
        await asyncio.gather(
            *(
                addresses.give(removal.contest, participant, removal.address, taker)
                for participant in removal.participants
                for taker in (removal.vote_id, removal.voter)
            )
        )
