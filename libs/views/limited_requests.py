"""Reservations that use an address's limit in the same call. In a cluster they take two: counters lie anywhere."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from libs.tally.reservations import Answer, Request
from libs.views.address_counters import AddressAnswer, Take, Taken, counter_key
from libs.views.serialization import answer, digest, request_item


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
