"""A fold of ordinary votes is one call on any processor; one that would block Valkey for long ends early."""

from typing import Any

import pytest
from redis import Redis

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import votes_topic
from libs.projection.votes_projection import VotesProjection
from libs.tally.events import Event, Rating
from libs.views.valkey.client import Coalescer
from libs.views.valkey.function_libraries import unpack
from libs.views.votes.vote_views import APPLY_ITEMS
from libs.views.votes.votes_apply_items import fold_item
from tests.libs.views.lua_ledger import load
from tests.support.builders.contests import a_cast, a_report
from tests.support.clients.intercepted_valkey import InterceptedValkey
from tests.support.clients.vote_views import VoteViews

PREFIX = "slow_"
NO_TIME = [("local FOLD_SECONDS = 0.001", "local FOLD_SECONDS = 1e-9")]
"""Of the functions: a processor on which the time of a fold is over at once."""

TIMED = [
    ("local state = open_fold(", "local begun = os.clock()\n  local state = open_fold("),
    ("  if #state.poison", "  call('SET', views .. ':took', tostring(os.clock() - begun))\n  if #state.poison"),
]
"""Stores the processor's time of the latest fold."""


@pytest.fixture(scope="module", autouse=True)
def slow_functions(servers: Any) -> None:
    with Redis.from_url(servers.addresses.valkey) as redis:
        load(redis, PREFIX, NO_TIME + TIMED)


class Slow(InterceptedValkey):
    """Calls the functions of that processor."""

    def __init__(self, valkey: Coalescer) -> None:
        super().__init__(valkey)
        self.sent = 0
        """Records sent by all folds."""

    async def call(self, *command: Any) -> Any:
        if command[1].startswith("votes_apply"):
            self.sent += len(unpack(command[-1]))
        return await super().call(command[0], PREFIX + command[1], *command[2:])


async def is_one_call(views: VoteViews, events: list[Event]) -> bool:
    state = await views.position(0)
    first = state.offset if state else 0
    items = [fold_item(event, at, at) for at, event in enumerate(events, first)]
    return await views.apply_items(0, Position("log", first), items, first + len(items)) == len(items)


def casts(count: int = APPLY_ITEMS, **members: Any) -> list[Event]:
    return [a_cast(**{"voter": f"voter {at}", "vote_id": f"vote {at}"} | members) for at in range(count)]


@pytest.mark.parametrize("votes", [1, 3, 12])
async def test_as_many_votes_as_are_sent_at_once_are_folded_by_one_call(
    valkey: Coalescer, namespace: str, votes: int
) -> None:
    """New voters, and voters of some votes: also of more than are kept with a voter."""
    views = VoteViews(Slow(valkey), namespace, 1)
    for at in range(votes):
        assert await is_one_call(views, casts(vote_id=f"vote {at}", participant=f"p{at % 5}"))


HEAVY: dict[str, list[Event]] = {
    "ballots": casts(
        form="ballot", choices=[(f"p{at}", 1) for at in range(100)], max_participant=1, voter="voter"
    ),
    "ratings": casts(form="rating", rating=Rating(1, tuple((f"sub {at}", 1) for at in range(50)))),
    "contests": [a_cast(contest=f"contest {at}") for at in range(APPLY_ITEMS)],
    "reports": [a_report(f"r {at}", *((f"id {number}", 1, 1, 1) for number in range(250))) for at in range(9)],
}


@pytest.mark.parametrize("events", HEAVY.values(), ids=HEAVY)
async def test_a_fold_of_more_work_ends_when_its_time_is_over(
    valkey: Coalescer, namespace: str, events: list[Event]
) -> None:
    assert not await is_one_call(VoteViews(Slow(valkey), namespace, 1), events)


async def test_the_next_slices_are_as_long_as_a_call_could_fold(valkey: Coalescer, namespace: str) -> None:
    """Records that a call does not fold are sent, read and unpacked in vain."""
    slow = Slow(valkey)
    projection = VotesProjection(votes_topic(namespace, 1), VoteViews(slow, namespace, 1), None)
    votes = [vote_codec.encode(a_cast(contest=f"contest {at}")) for at in range(10 * APPLY_ITEMS)]
    log = [LogRecord(at, at, vote) for at, vote in enumerate(votes)]
    await projection.fold(0, Position("log", 0), log)
    assert slow.sent < 1.5 * len(log)
