"""Defects that random schedules found in earlier versions of the protocol, each by its shortest schedule."""

from dataclasses import replace

import pytest

from libs.tally.contest import Limits, Renewal
from libs.tally.errors import LimitScope
from libs.tally.events import ContestClosed, ContestReopened, Fence
from libs.tally.reservations import (
    GateClosed,
    OverLimit,
    Stale,
    cast_of,
)
from libs.tally.voter_ledger import VoteStatus
from tests.libs.views.lua_ledger import LuaLedger, folded
from tests.libs.views.scheduled_log import RATED, Log
from tests.support.builders import a_contest, a_rating, a_restore, a_void, a_vote, content_hash


def test_an_id_that_another_request_took_after_a_fence_is_not_taken_for_ones_own(ledger: LuaLedger) -> None:
    log, mine, other = Log(ledger), a_vote("a"), a_vote("b", content=content_hash("b"))
    log.fence()
    log.reserve(a_contest(), mine)
    log.fence()
    log.append(cast_of(other, log.reserve(a_contest(), other), "receipt"))
    log.fold()
    seen = ledger.lookup(mine)
    assert seen.status is VoteStatus.COUNTED
    assert seen.content == other.content != mine.content


def test_a_fence_of_a_forgotten_past_does_not_fence_off_a_confirmed_vote(ledger: LuaLedger) -> None:
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


def test_a_fence_with_the_number_that_is_asked_for_opens_only_in_the_run_that_asked(ledger: LuaLedger) -> None:
    """Else votes after that fence, not yet folded, would not bind the voter."""
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
def test_a_projector_that_slept_puts_no_old_configuration_in_force(ledger: LuaLedger, late_first: bool) -> None:
    log = Log(ledger)
    log.fence()
    old, new = a_contest(version=2, free=Limits(9, -1)), a_contest(version=3, free=Limits(1, -1))
    for version in (2, 3) if late_first else (3, 2):
        ledger.raise_config("contest", version)
    answer = ledger.reserve(old, a_vote(count=5))
    assert isinstance(answer, Stale)
    ledger.put_in_force(old, answer.incarnation)
    assert isinstance(ledger.reserve(old, a_vote(count=5)), Stale)
    ledger.put_in_force(new, answer.incarnation)
    assert isinstance(ledger.reserve(new, a_vote(count=5)), OverLimit)


def test_a_release_under_an_old_incarnation_leaves_anothers_reservation_alone(ledger: LuaLedger) -> None:
    log, vote = Log(ledger), a_vote()
    log.fence()
    old = log.reserve(a_contest(), vote)
    log.fence()
    log.reserve(a_contest(), vote)
    ledger.release(vote, old.incarnation)
    assert ledger.lookup(vote).pending
    assert isinstance(ledger.reserve(a_contest(), a_vote(vote_id="second")), OverLimit)


def test_a_vote_does_not_rely_on_a_pending_one_of_larger_limits(ledger: LuaLedger) -> None:
    """That one may never come."""
    log, contest = Log(ledger), replace(RATED, renewal=Renewal())
    log.fence()
    log.cast(contest, a_rating("b", vote_id="other"))
    ledger.raise_config("contest", 2)
    log.reserve(replace(contest, version=2, free=Limits(1, 2)), a_rating("a", vote_id="pending"))
    ledger.raise_config("contest", 3)
    answer = log.ask(replace(contest, version=3), a_rating("a", vote_id="replacing"))
    assert isinstance(answer, OverLimit)
    assert (answer.scope, answer.used) == (LimitScope.CONTEST, 1)


def test_a_replacement_takes_its_allowance_once_what_came_before_it_is_given_up(ledger: LuaLedger) -> None:
    log = Log(ledger)
    log.fence()
    first = a_rating("a", vote_id="first")
    granted = log.reserve(RATED, first)
    log.reserve(RATED, a_rating("a", vote_id="replacing"))
    ledger.release(first, granted.incarnation)
    assert isinstance(log.ask(RATED, a_rating("b", vote_id="other")), OverLimit)


def test_a_reopening_in_parts_is_a_closing_until_the_last(ledger: LuaLedger) -> None:
    """Waiting events take effect in the order of the log; a late mark of the closing does not undo that."""
    log, free = Log(ledger), Limits(-1, -1)
    log.fence()
    log.cast(a_contest(free=free), *(a_vote(vote_id=name) for name in "abc"))
    log += [ContestClosed("contest", 1)]
    log += [event(name) for name in "abc" for event in (a_void, a_restore)]
    part = ContestReopened("contest", 1, 2)
    log += [part]
    log.fold()
    state = ledger.closing("contest")
    assert (state.closed, state.reopened, state.waiting, state.folded) == (-1, 0, 2, len(log))
    log += [ContestClosed("contest", 1), a_void("a", void="later")]
    log.fold()
    assert ledger.closing("contest").closed == -1
    assert log.ask(a_contest(free=free, reopened=1), a_vote(vote_id="d")) == GateClosed()
    log += [part, part]
    log.fold()
    assert ledger.closing("contest").reopened == 0
    log += [part]
    log.fold()
    assert ledger.closing("contest").reopened == 1
    statuses = [log.status(name) for name in "abc"]
    assert statuses == [VoteStatus.VOIDED, VoteStatus.COUNTED, VoteStatus.COUNTED]
    assert ledger.differences(folded(log)) == []


def test_what_was_cast_between_two_renewals_is_the_latest_vote_too(ledger: LuaLedger) -> None:
    log, contest = Log(ledger), a_contest(free=Limits(-1, 1), renewal=Renewal(cooldown_us=5_000))
    log.fence()
    log.cast(contest, a_vote(vote_id="1"))
    ledger.tick(turns=4)
    without = replace(contest, version=2, free=Limits(-1, 2), renewal=Renewal())
    ledger.raise_config("contest", 2)
    log.cast(without, a_vote(vote_id="2"))
    ledger.tick(turns=4)
    ledger.raise_config("contest", 3)
    again = replace(contest, version=3, free=Limits(-1, 2))
    assert isinstance(log.ask(again, a_vote(vote_id="3")), OverLimit)
    ledger.tick(turns=1)
    assert log.reserve(again, a_vote(vote_id="3")).epoch == 1


def test_no_period_begins_while_a_vote_of_the_last_but_one_is_pending(ledger: LuaLedger) -> None:
    """That one would come to sums that are merged, and be overruled, though its voter was answered 201."""
    log, contest = Log(ledger), a_contest(free=Limits(1, 1), renewal=Renewal(cooldown_us=1_000))
    log.fence()
    first, second, third = (a_vote(vote_id=name) for name in ("first", "second", "third"))
    late = cast_of(first, log.reserve(contest, first), "receipt")
    ledger.tick(turns=5)
    log.cast(contest, second)
    ledger.tick(turns=5)
    assert log.ask(contest, third) == GateClosed()
    log.append(late)
    log.fold()
    assert log.status("first") is VoteStatus.COUNTED
    assert log.reserve(contest, third).epoch == 2
