"""Counters of the free votes of an address for a participant. They are approximate, and no part of the fold."""

from collections.abc import Awaitable, Sequence
from enum import Enum
from itertools import starmap
from typing import Any, NamedTuple

from libs.tally.errors import ViewsUnavailable
from libs.views.client import Valkey
from libs.views.function_libraries import call_function
from libs.views.serialization import digest

ADDRESS_LIFE_S = 30 * 86_400
"""Lifetime of a counter if the contest has no end."""

MOST_VOTES = 128
"""Maximum number of votes of one `take` or `refill` call: a millisecond of Valkey's time."""

Counter = tuple[str, str, str]
"""Contest, participant, address."""
TakenBefore = tuple[str, int]
"""A taker and its count; 0 if it gave the votes back."""


class Taken(Enum):
    FULL = 0
    TAKEN = 1
    HAD = 2


class AddressAnswer(NamedTuple):
    """Result of a `Take`; `used` is the number of votes used before."""

    taken: Taken
    used: int


class Take(NamedTuple):
    """`votes` of one taker to be used of a counter, unless that exceeds `limit` (-1: unlimited).

    The counter expires at `expires_at_s` (seconds since 1970; 0: never).
    """

    counter: Counter
    taker: str
    votes: int
    limit: int
    expires_at_s: int = 0


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

    async def take(self, takes: Sequence[Take]) -> list[AddressAnswer | ViewsUnavailable]:
        """Use votes for many takers, those of one counter in their order. Errors are returned, not raised.

        All are sent together, with one call for each counter: counters lie in slots of their own.
        """
        calls: list[tuple[list[int], Awaitable[Any]]] = []
        for (counter, limit, expires_at_s), places in _by_counter(takes).items():
            for at in range(0, len(places), MOST_VOTES):
                page = places[at : at + MOST_VOTES]
                votes = (word for place in page for word in (digest(takes[place].taker), takes[place].votes))
                args = limit, expires_at_s, *votes
                calls.append((page, call_function(self._valkey, "address_take", self._key(*counter), *args)))
        answers: dict[int, AddressAnswer | ViewsUnavailable] = {}
        for page, call in calls:
            try:
                flat = await call
            except ViewsUnavailable as error:
                answers.update(dict.fromkeys(page, error))
            else:
                pairs = zip(map(Taken, flat[::2]), flat[1::2], strict=True)
                answers.update(zip(page, starmap(AddressAnswer, pairs), strict=True))
        return [answers[place] for place in range(len(takes))]

    async def give(self, contest: str, participant: str, address: str, taker: str) -> None:
        """Give back the votes of a taker whose vote was refused or removed."""
        key = self._key(contest, participant, address)
        await call_function(self._valkey, "address_give", key, digest(taker))

    async def refill(self, counter: Counter, taken: Sequence[TakenBefore], expires_at_s: int) -> None:
        """Restore counters that Valkey may have lost, from votes in the order of the log. Repeatable."""
        key = self._key(*counter)
        for at in range(0, len(taken), MOST_VOTES):
            counts = (word for taker, count in taken[at : at + MOST_VOTES] for word in (digest(taker), count))
            await call_function(self._valkey, "address_refill", key, expires_at_s, *counts)


def _by_counter(takes: Sequence[Take]) -> dict[tuple[Counter, int, int], list[int]]:
    """Return the places in `takes` by counter, limit and expiry."""
    places: dict[tuple[Counter, int, int], list[int]] = {}
    for place, take in enumerate(takes):
        places.setdefault((take.counter, take.limit, take.expires_at_s), []).append(place)
    return places
