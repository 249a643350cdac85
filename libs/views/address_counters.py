"""Counters of the free votes of an address for a participant. They are approximate, and no part of the fold."""

import asyncio
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from libs.tally.events import VoteRemoved
from libs.views.client import Valkey
from libs.views.serialization import digest

ADDRESS_LIFE_S = 30 * 86_400
"""Lifetime of a counter if the contest has no end."""

REFILLED = 128
"""Maximum number of votes of one `refill` call: a millisecond of Valkey's time."""

Counter = tuple[str, str, str]
"""Contest, participant, address."""
TakenBefore = tuple[str, int]
"""A taker and its count; 0 if it gave the votes back."""


class Taken(Enum):
    FULL = 0
    TAKEN = 1
    HAD = 2


class AddressAnswer(NamedTuple):
    """Result of `take`; `used` is the number of votes used before."""

    taken: Taken
    used: int


class AddressCounters:
    """Counters of one namespace, exact unless Valkey loses data.

    `address` is a pseudonym. A taker (a vote id, or the voter of a replacing vote) is counted once, also if
    repeated.
    """

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
        """Use `count` votes unless that exceeds `limit` (-1: unlimited). The counter expires at `expires_at_s`."""
        key = self._key(contest, participant, address)
        args = digest(taker), count, limit, expires_at_s or 0
        taken, used = await self._valkey.call("FCALL", "address_take", 1, key, *args)
        return AddressAnswer(Taken(taken), used)

    async def give(self, contest: str, participant: str, address: str, taker: str) -> None:
        """Give back the votes of a taker whose vote was refused or removed."""
        key = self._key(contest, participant, address)
        await self._valkey.call("FCALL", "address_give", 1, key, digest(taker))

    async def refill(self, counter: Counter, taken: Sequence[TakenBefore], expires_at_s: int) -> None:
        """Restore counters that Valkey may have lost, from votes in the order of the log. Repeatable."""
        key = self._key(*counter)
        for at in range(0, len(taken), REFILLED):
            counts = (word for taker, count in taken[at : at + REFILLED] for word in (digest(taker), count))
            await self._valkey.call("FCALL", "address_refill", 1, key, expires_at_s, *counts)


async def give_back(addresses: AddressCounters, removal: VoteRemoved) -> None:
    """Give back the removed vote's use of its address's limit, counted for its vote id or for its voter."""
    if removal.address is not None:
        await asyncio.gather(
            *(
                addresses.give(removal.contest, participant, removal.address, taker)
                for participant in removal.participants
                for taker in (removal.vote_id, removal.voter)
            )
        )
