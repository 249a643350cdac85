"""Counters of the free votes of an address for a participant, advisory and no part of the fold.

A reservation can use a counter in the same call, on one server; in a cluster it takes two: counters lie anywhere.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from hiredis import ReplyError

from libs.tally.errors import ViewsUnavailable
from libs.tally.reservations import Answer, Request
from libs.views.valkey.client import Valkey
from libs.views.valkey.connection import NO_ANSWER, part_error
from libs.views.valkey.function_libraries import call_function, call_together, pack
from libs.views.votes.serialization import answer, digest, request_item

ADDRESS_LIFE_S = 30 * 86_400
"""Lifetime of a counter if the contest has no end."""

TAKE_S = 1.0
"""Seconds after which a counter counts as lost. A late call uses votes in the name of the same taker."""
MOST_VOTES = 128
"""Maximum number of votes of one `take` or `refill` call: a millisecond of Valkey's time."""
MOST_COUNTERS = 64
"""Maximum number of counters of one `take` call, if one server has them all: a millisecond of Valkey's time."""

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
        """Use votes for many takers as `start_taking` does. Errors are returned, not raised."""
        answers = await asyncio.gather(*self.start_taking(takes), return_exceptions=True)
        return [_known(answer) for answer in answers]

    def start_taking(self, takes: Sequence[Take]) -> list["asyncio.Future[AddressAnswer]"]:
        """Use votes for many takers, those of one counter in their order; one future for each of them.

        All are sent together: in few calls if one server has all counters; in a cluster with one call for each
        counter, since they lie in slots of their own. There some may respond while others do not: those fail with
        `ViewsUnavailable` after `TAKE_S` at the latest.
        """
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[AddressAnswer]] = [loop.create_future() for _ in takes]
        for call in _calls(_pages(takes), 1 if self._valkey.is_cluster else MOST_COUNTERS):
            arguments = [self._argument(takes, page) for page in call]
            reply = asyncio.ensure_future(call_together(self._valkey, "address_take", arguments))
            reply.add_done_callback(partial(_answer, [[answers[place] for place in page] for page in call]))
        loop.call_later(TAKE_S, _fail_late, answers)
        return answers

    def _argument(self, takes: Sequence[Take], page: Sequence[int]) -> tuple[str, bytes]:
        """Return the key of a page's counter, and its packed argument."""
        counter, _, _, limit, expires_at_s = takes[page[0]]
        votes = (word for place in page for word in (digest(takes[place].taker), takes[place].votes))
        return counter_key(self._namespace, counter), pack([limit, expires_at_s, *votes])

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


def _answer(pages: Sequence[Sequence["asyncio.Future[AddressAnswer]"]], reply: "asyncio.Future[Any]") -> None:
    """Answer the uses of each page of a call."""
    error = ViewsUnavailable(NO_ANSWER, retry_after_s=1) if reply.cancelled() else reply.exception()
    for page, flat in zip(pages, [None] * len(pages) if error is not None else reply.result(), strict=True):
        failure = part_error(flat) if isinstance(flat, ReplyError) else error
        for at, future in enumerate(page):
            if future.done():
                continue
            if failure is not None:
                future.set_exception(failure)
            else:
                future.set_result(AddressAnswer(Taken(flat[2 * at]), flat[2 * at + 1]))


def _fail_late(answers: Sequence["asyncio.Future[AddressAnswer]"]) -> None:
    late = f"no answer within {TAKE_S:g} s"
    for future in answers:
        if not future.done():
            future.set_exception(ViewsUnavailable(NO_ANSWER, retry_after_s=1, cause=late))


def _known(answer: AddressAnswer | BaseException) -> AddressAnswer | ViewsUnavailable:
    if isinstance(answer, BaseException) and not isinstance(answer, ViewsUnavailable):
        raise answer
    return answer


def _pages(takes: Sequence[Take]) -> Iterator[Sequence[int]]:
    """Return the places in `takes` by counter, limit and expiry, each page small enough for a call."""
    places: dict[tuple[Counter, int, int], list[int]] = {}
    for place, take in enumerate(takes):
        places.setdefault((take.counter, take.limit, take.expires_at_s), []).append(place)
    for its in places.values():
        for at in range(0, len(its), MOST_VOTES):
            yield its[at : at + MOST_VOTES]


def _calls(pages: Iterable[Sequence[int]], most: int) -> Iterator[Sequence[Sequence[int]]]:
    """Return the pages by calls: at most `most` pages, and `MOST_VOTES` votes, each."""
    call: list[Sequence[int]] = []
    votes = 0
    for page in pages:
        if call and (len(call) == most or votes + len(page) > MOST_VOTES):
            yield call
            call, votes = [], 0
        call.append(page)
        votes += len(page)
    if call:
        yield call


class LimitedRequest(NamedTuple):
    """A request for a reservation, after a use of a counter on the same server: a full one refuses it."""

    request: Request
    take: Take


class LimitedAnswer(NamedTuple):
    """Answer to a `LimitedRequest`; without a `use` nothing was used, since the gate was closed."""

    use: AddressAnswer | None
    answer: Answer


def counters_of(namespace: str, requests: Sequence[Request | LimitedRequest]) -> list[str]:
    """Return the keys of the requests' counters."""
    return [counter_key(namespace, each.take.counter) for each in requests if isinstance(each, LimitedRequest)]


def item_of(namespace: str, request: Request | LimitedRequest) -> list[Any]:
    """Return the argument of `votes_reserve`."""
    if isinstance(request, Request):
        return request_item(request)
    take = request.take
    use = [take.limit, take.expires_at_s, digest(take.taker), take.votes]
    return [*request_item(request.request), counter_key(namespace, take.counter), use]


def answer_to(request: Request | LimitedRequest, reply: Any) -> Answer | LimitedAnswer:
    """Return the answer in a reply of `votes_reserve`."""
    if isinstance(request, Request):
        return answer(reply)
    if not isinstance(reply[0], list):
        return LimitedAnswer(None, answer(reply))
    (state, used), its = reply
    return LimitedAnswer(AddressAnswer(Taken(state), used), answer(its))
