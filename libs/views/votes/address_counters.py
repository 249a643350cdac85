"""Counters of the free votes of an address for a participant, advisory and no part of the fold.

A reservation can use a counter in the same call, on one server; in a cluster it takes two: counters lie anywhere.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from hiredis import ReplyError

from libs.tally.errors import ViewsUnavailable
from libs.tally.reservations import AddressAnswer, Counter, Request, Reserved, Take, Taken
from libs.views.valkey.client import Valkey
from libs.views.valkey.connection import NO_ANSWER, part_error
from libs.views.valkey.function_libraries import call_function, call_together, pack
from libs.views.votes.serialization import answer, digest, request_item

ADDRESS_LIFE_S = 30 * 86_400
"""Lifetime of a counter if the contest has no end."""

TAKE_S = 1.0
"""Seconds after which a counter counts as lost. A late call uses votes in the name of the same taker."""
MOST_VOTES = 128
"""Maximum number of votes of one `refill` call: a millisecond of Valkey's time."""
MOST_COUNTERS = 64
"""Maximum number of counters of one `take` call, if one server has them all: a millisecond of Valkey's time."""

TakenBefore = tuple[str, int]
"""A taker and its count; 0 if it gave the votes back."""


def counter_key(namespace: str, counter: Counter) -> str:
    contest, participant, address = counter
    return f"{namespace}:{{a:{contest}:{participant}:{address}}}"


class AddressCounters:
    """Counters of one namespace, exact unless Valkey loses data.

    `address` is a pseudonym. A taker (a vote id, or the voter of a replacing vote) is counted once, also if
    repeated, by the most votes of its attempts. Each attempt that used the counter, also one after another, holds
    the use: it is free again once all have given it back.
    """

    def __init__(self, valkey: Valkey, namespace: str) -> None:
        self._valkey = valkey
        self._namespace = namespace

    async def take(self, takes: Sequence[Take]) -> list[AddressAnswer | ViewsUnavailable]:
        """Use votes for each taker, in few calls if one server has all counters, else with one for each counter.

        In a cluster some may respond while others do not: those have `ViewsUnavailable` after `TAKE_S`.
        """
        pairs = [(counter_key(self._namespace, its.counter), pack(_use(its))) for its in takes]
        size = 1 if self._valkey.is_cluster else MOST_COUNTERS
        calls = {
            asyncio.ensure_future(call_together(self._valkey, "address_take", pairs[at : at + size])): at
            for at in range(0, len(pairs), size)
        }
        answers: list[AddressAnswer | ViewsUnavailable] = [ViewsUnavailable(NO_ANSWER, retry_after_s=1)] * len(
            pairs
        )
        answered, late = await asyncio.wait(calls, timeout=TAKE_S) if calls else ((), ())
        for call in late:
            call.cancel()
        for call in answered:
            error = call.exception()
            if error is not None and not isinstance(error, ViewsUnavailable):
                raise error
            at = calls[call]
            replies = [error] * len(pairs[at : at + size]) if error is not None else map(_answer, call.result())
            answers[at : at + size] = replies
        return answers

    async def give(self, counter: Counter, taker: str, *, removed: bool = False) -> None:
        """Give back what one attempt of a taker holds, or, of a `removed` vote, all that was used in its name."""
        key = counter_key(self._namespace, counter)
        await call_function(self._valkey, "address_give", key, digest(taker), int(removed))

    async def refill(self, counter: Counter, taken: Sequence[TakenBefore], expires_at_s: int) -> None:
        """Restore counters that Valkey may have lost, from votes in the order of the log. Repeatable."""
        key = counter_key(self._namespace, counter)
        for at in range(0, len(taken), MOST_VOTES):
            counts = (word for taker, count in taken[at : at + MOST_VOTES] for word in (digest(taker), count))
            await call_function(self._valkey, "address_refill", key, expires_at_s, *counts)


def _use(take: Take) -> list[Any]:
    return [take.limit, take.expires_at_s, digest(take.taker), take.votes]


def _answer(reply: Any) -> AddressAnswer | ViewsUnavailable:
    return part_error(reply) if isinstance(reply, ReplyError) else AddressAnswer(Taken(reply[0]), reply[1])


def item_of(namespace: str, request: Request) -> list[Any]:
    """Return the argument of `votes_reserve`."""
    take = request.take
    use = [] if take is None else [counter_key(namespace, take.counter), _use(take)]
    return [*request_item(request), *use]


def answer_to(request: Request, reply: Any) -> Reserved:
    """Return the answer in a reply of `votes_reserve`."""
    if request.take is None or not isinstance(reply[0], list):
        return Reserved(answer(reply))
    (state, used), its = reply
    return Reserved(answer(its), AddressAnswer(Taken(state), used))
