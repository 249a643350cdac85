"""Voters and followers on random networks: what must hold whatever happens, and mutations that break it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import httpx
import pytest

from libs.client import Accepted, MemoryStore, PendingVote, Undecided, calls, following
from libs.client.calls import Calls
from libs.client.following import Follower
from libs.client.service_clock import ServiceClock
from tests.libs.client.simulated_service import Attempt, Caller, World

pytestmark = pytest.mark.pure
SEEDS = range(25)


def votes_in_an_outage(draw: random.Random, is_async: bool) -> None:
    """Voters press again, clients start again; each action has one id, is counted once, and none is lost."""
    world = World(retry_after=draw.choice((0, 0, 2, 7)))
    kinds: list[str | int | None] = ["before", "after", 503, 429, "page", None]
    world.faults = iter(draw.choices(kinds, [3, 3, 9, 2, 1, 1], k=draw.randrange(60)))
    actions: dict[str, list[Any]] = {voter: [] for voter in "abcdef"}
    for voter, outcomes in actions.items():
        for _ in range(draw.randrange(1, 4)):
            if outcomes and not isinstance(outcomes[-1], Undecided):
                break
            world.sleep(10)
            caller = Caller(world, is_async, draw.random, patience_s=draw.choice((0, 5, 60)))
            outcomes.append(caller.vote("c", participant_key="p", voter_id=voter))
    world.faults = iter(())
    world.sleep(10)
    last = {outcome.vote.vote_id: outcome for outcome in Caller(world, is_async).resume_all()}
    for voter, outcomes in actions.items():
        assert len({outcome.vote.vote_id for outcome in outcomes}) == 1, "a second id for one action"
        end = last.get(outcomes[-1].vote.vote_id, outcomes[-1])
        assert isinstance(end, Accepted), "a vote was lost"
        assert [name for name, _ in world.counted].count(voter) == 1, "counted not once"
    for attempts in by_vote(world.attempts):
        for before, after in pairwise(attempts):
            assert after.at - before.at >= before.least_s, "came before Retry-After"
        assert len(attempts) <= 10 or attempts[9].at - attempts[0].at > 20, "no backoff"


def by_vote(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    found: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        found.setdefault(attempt.vote["vote_id"], []).append(attempt)
    return list(found.values())


def follows_to_the_end(draw: random.Random, is_async: bool) -> None:
    """However often and whatever way streams end, the last counts are shown, and nothing hammers the service."""
    world = World(retry_after=draw.choice((0, 3)))
    ends: list[list[bytes | str]] = [
        ["503"], ["429"], ["unreachable"], ["page"], [], ["phase"], ["phase", "break"], ["phase", "silence"],
        ["phase", "wait"], ["phase", b"event: counts\ndata: {"], ["silence"],
    ]  # fmt: skip
    last: list[bytes | str] = [
        "phase",
        b'event: counts\nid: 9\ndata: {"count": 9}\n\n',
        b"event: gone\ndata: {}\n\n",
    ]
    world.streams = iter([*draw.choices(ends, k=draw.randrange(1, 25)), last])
    updates = Caller(world, is_async, draw.random).follow("c")
    assert updates[-1].results == {"count": 9}, "the stream was not opened again"
    assert not updates[-1].is_stale
    for before, after in pairwise(world.opened):
        assert after - before >= 0.5, "no pause between streams"
    assert sum(update.is_stale for update in updates) >= 1, "stale numbers were shown as new"


def tells_the_service_s_time(draw: random.Random, is_async: bool) -> None:
    """The device's clock is hours off and jumps; the time shown is the service's, never ahead of it."""
    world = World()
    caller = Caller(world, is_async)
    assert caller.service_time() is None
    for _ in range(3):
        caller.allowance("c", voter_id="a")
        world.sleep(draw.uniform(0, 1_000))
        assert timedelta(0) <= world.time - caller.service_time() <= timedelta(seconds=1.1), "the device's clock"
    world.streams = iter([["phase", b"event: gone\ndata: {}\n\n"]])
    caller.follow("c")
    assert abs(world.time - caller.service_time()) < timedelta(milliseconds=50), "the device's clock"


def phones_come_back_apart(draw: random.Random, is_async: bool) -> None:
    """After an error that all receive at once, they do not come back at once."""
    times = []
    for _ in range(20):
        world = World(iter([503]), retry_after=2)
        world.streams = iter([["503"], [b"event: gone\ndata: {}\n\n"]])
        caller = Caller(world, is_async, draw.random)
        caller.vote("c", participant_key="p", voter_id="a")
        caller.follow("c")
        times.append((round(world.attempts[-1].at, 2), round(world.opened[1] - world.opened[0], 1)))
    assert len({at for at, _ in times}) > 8, "no jitter"
    assert len({pause for _, pause in times}) > 3, "no jitter"


PROPERTIES = (votes_in_an_outage, follows_to_the_end, tells_the_service_s_time, phones_come_back_apart)


@pytest.mark.parametrize("check", PROPERTIES, ids=lambda check: check.__name__)
def test_it_holds_on_every_network(check: Callable[[random.Random, bool], None]) -> None:
    for seed in SEEDS:
        check(random.Random(seed), seed % 2 == 0)


stored, pause, lost = MemoryStore.add, calls.pause_after, Follower.lost


def new_id(store: MemoryStore, votes: Sequence[Any]) -> list[Any]:
    stored(store, votes)
    return list(votes)


def forgets(made: Calls, outcomes: Sequence[Any]) -> None:
    made.store.remove([outcome.vote for outcome in outcomes])


def not_stored(made: Calls, contest: str, body: Any) -> Any:
    return (yield from made.cast(PendingVote.of(contest, body)))


def ends(follower: Follower) -> Any:
    follower.is_over = True
    yield from lost(follower)


MUTATIONS: dict[str, tuple[Any, str, Any]] = {
    "a second id": (MemoryStore, "add", new_id),
    "sent before it is stored": (Calls, "vote", not_stored),
    "forgotten when patience ends": (Calls, "_forget", forgets),
    "no backoff": (calls, "pause_after", lambda failures, least, random: least + 0.1),
    "Retry-After ignored": (calls, "pause_after", lambda failures, least, random: pause(failures, 0.0, random)),
    "no jitter of votes": (calls, "pause_after", lambda failures, least, random: pause(failures, least, 0.5)),
    "the device's clock": (ServiceClock, "now", lambda clock: World().time + timedelta(hours=2)),
    "the stream not opened again": (Follower, "lost", ends),
    "a dead stream waited for": (following, "TIMEOUT", httpx.Timeout(10, read=None)),
    "no pause between streams": (Follower, "pause", lambda follower: 0.0),
    "no jitter of streams": (Follower, "pause", lambda follower: 2.0),
    "stale numbers shown as new": (Follower, "lost", lambda follower: iter(())),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_mutation_is_noticed(mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTATIONS[mutation])
    for seed in SEEDS:
        for check in PROPERTIES:
            try:
                check(random.Random(seed), seed % 2 == 0)
            except AssertionError:
                return
    pytest.fail("nobody noticed")
