"""How many free votes an address has given a participant: counters of their own, advisory to the fold."""

from enum import Enum
from typing import NamedTuple

from libs.views.client import Valkey
from libs.views.packing import digest


class Taken(Enum):
    FULL = 0
    TAKEN = 1
    HAD = 2


class AddressAnswer(NamedTuple):
    """`used` counts what was taken before."""

    taken: Taken
    used: int


class AddressCounters:
    """Exact in fair weather. `address` is a pseudonym; a vote id takes its count once, however often it asks."""

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
        vote_id: str,
        count: int,
        limit: int,
        expires_at_s: int | None = None,
    ) -> AddressAnswer:
        """Take `count` votes unless that exceeds `limit` (-1: none). The counter lives until `expires_at_s`."""
        key = self._key(contest, participant, address)
        args = digest(vote_id), count, limit, expires_at_s or 0
        taken, used = await self._valkey.call("FCALL", "address_take", 1, key, *args)
        return AddressAnswer(Taken(taken), used)

    async def give(self, contest: str, participant: str, address: str, vote_id: str) -> None:
        """Give back what a refused vote took."""
        key = self._key(contest, participant, address)
        await self._valkey.call("FCALL", "address_give", 1, key, digest(vote_id))
