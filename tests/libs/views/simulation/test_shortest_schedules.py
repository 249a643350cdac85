"""Holes that random schedules found in earlier forms of the protocol, each as the shortest way to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis

from libs.contracts.log import Position
from libs.tally.admission import Granted, OverLimit, Stale, cast_of
from libs.tally.contest import Limits
from libs.tally.events import Event, Fence, LogCreated
from libs.tally.standing import VoteStatus
from tests.libs.views.simulation.ledger import Ledger
from tests.libs.views.simulation.lua import LuaLedger, load
from tests.libs.views.simulation.model import ModelLedger
from tests.support.builders import a_contest, a_vote, content_hash


@pytest.fixture(params=["model", "lua"])
def ledger(request: Any, namespace: str) -> Iterator[Ledger]:
    if request.param == "model":
        yield ModelLedger()
        return
    with Redis.from_url(request.getfixturevalue("valkey_address")) as redis:
        load(redis)
        lua = LuaLedger(redis, namespace)
        yield lua
        lua.clear()


class Log(list[Event]):
    """The partition's log, folded into `ledger` on demand."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__([LogCreated("log")])
        self.ledger = ledger

    def fold(self) -> None:
        at = self.ledger.state().position.offset
        self.ledger.apply(Position("log", at), self[at:], len(self))

    def fence(self) -> Fence:
        """Shut the gate, and open it again by a fence."""
        fence = self.ledger.shut(self.ledger.state().incarnation)
        assert fence is not None
        self.append(fence)
        self.fold()
        assert self.ledger.state().open
        return fence

    def reserve(self, contest: Any, command: Any) -> Granted:
        """Reserve by a configuration that is in force."""
        answer = self.ledger.reserve(contest, command)
        if isinstance(answer, Stale):
            self.ledger.raise_config(contest.key, contest.version, answer.incarnation)
            answer = self.ledger.reserve(contest, command)
        assert isinstance(answer, Granted)
        return answer


def test_a_retry_by_a_worker_with_lower_limits_records_what_was_admitted(ledger: Ledger) -> None:
    log, vote = Log(ledger), a_vote(count=5)
    log.fence()
    log.reserve(a_contest(free=Limits(5, -1)), vote)
    lowered = a_contest(version=2, free=Limits(3, -1))
    ledger.raise_config("contest", 2)
    joined = log.reserve(lowered, vote)
    log.append(cast_of(vote, joined, "receipt"))
    assert ledger.confirm(joined.incarnation)
    log.fold()
    assert ledger.lookup(vote).status is VoteStatus.COUNTED


def test_an_id_that_another_request_took_after_a_fence_is_not_taken_for_ones_own(ledger: Ledger) -> None:
    log, mine, other = Log(ledger), a_vote("a"), a_vote("b", content=content_hash("b"))
    log.fence()
    log.reserve(a_contest(), mine)
    log.fence()
    log.append(cast_of(other, log.reserve(a_contest(), other), "receipt"))
    log.fold()
    seen = ledger.lookup(mine)
    assert seen.status is VoteStatus.COUNTED
    assert seen.content == other.content != mine.content


def test_a_fence_of_a_forgotten_past_does_not_fence_off_a_confirmed_vote(ledger: Ledger) -> None:
    log, vote = Log(ledger), a_vote()
    first, before = log.fence(), ledger.snapshot()
    forgotten = Fence(first.incarnation + 100_000, first.incarnation, first.run)
    ledger.restart(before, clock_step_ms=-500)
    log.fence()
    log.append(forgotten)
    granted = log.reserve(a_contest(), vote)
    log.append(cast_of(vote, granted, "receipt"))
    assert ledger.confirm(granted.incarnation)
    log.fold()
    assert ledger.lookup(vote).status is VoteStatus.COUNTED


def test_a_fence_with_the_number_that_is_asked_for_opens_only_in_the_run_that_asked(ledger: Ledger) -> None:
    """Else votes behind that fence, not yet folded, would not bind the voter."""
    log = Log(ledger)
    before = ledger.snapshot()
    old = log.fence()
    ledger.restart(before)
    asked = ledger.shut(0)
    assert asked is not None
    namesake = replace(asked, run=old.run)
    log[1:] = [namesake]
    log.fold()
    assert not ledger.state().open
    log.fence()


@pytest.mark.parametrize("late_first", [True, False])
def test_a_projector_that_slept_puts_no_old_configuration_in_force(ledger: Ledger, late_first: bool) -> None:
    log = Log(ledger)
    log.fence()
    old, new = a_contest(version=2, free=Limits(9, -1)), a_contest(version=3, free=Limits(1, -1))
    for version in (2, 3) if late_first else (3, 2):
        ledger.raise_config("contest", version)
    answer = ledger.reserve(old, a_vote(count=5))
    assert isinstance(answer, Stale)
    ledger.raise_config("contest", old.version, answer.incarnation)
    assert isinstance(ledger.reserve(old, a_vote(count=5)), Stale)
    ledger.raise_config("contest", new.version, answer.incarnation)
    assert isinstance(ledger.reserve(new, a_vote(count=5)), OverLimit)


def test_a_release_under_an_old_incarnation_leaves_anothers_reservation_alone(ledger: Ledger) -> None:
    log, vote = Log(ledger), a_vote()
    log.fence()
    old = log.reserve(a_contest(), vote)
    log.fence()
    log.reserve(a_contest(), vote)
    ledger.release(vote, old.incarnation)
    assert ledger.lookup(vote).pending
    assert isinstance(ledger.reserve(a_contest(), a_vote(vote_id="second")), OverLimit)


def test_an_acknowledged_vote_behind_an_unfolded_fence_is_not_confirmed(ledger: Ledger) -> None:
    log, vote = Log(ledger), a_vote()
    log.fence()
    granted = log.reserve(a_contest(), vote)
    fence = ledger.shut(granted.incarnation)
    assert fence is not None
    log += [fence, cast_of(vote, granted, "receipt")]
    assert not ledger.confirm(granted.incarnation)
    log.fold()
    assert ledger.lookup(vote).status is None
    assert log.reserve(a_contest(), vote).incarnation == fence.incarnation
