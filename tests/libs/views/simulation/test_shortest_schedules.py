"""Defects that random schedules found in earlier versions of the protocol, each by its shortest schedule."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from redis import Redis

from libs.contracts.log_records import Position
from libs.tally.commands import CastVote, RemoveVote
from libs.tally.contest import Contest, Limits, Renewal
from libs.tally.errors import LimitScope
from libs.tally.events import ContestClosed, ContestReopened, Event, Fence, LogCreated
from libs.tally.reservations import (
    GateClosed,
    Granted,
    NotCounted,
    NotFolded,
    OverLimit,
    Paid,
    RemovalGranted,
    Stale,
    cast_of,
)
from libs.tally.voter_ledger import VoteStatus
from libs.voting.protocol.removal import is_removed
from tests.libs.views.simulation.client_requests import Removing
from tests.libs.views.simulation.ledger import Ledger
from tests.libs.views.simulation.lua_ledger import LuaLedger, load
from tests.libs.views.simulation.model_ledger import ModelLedger
from tests.libs.views.simulation.promise_checks import folded
from tests.support.builders import a_contest, a_rating, a_restore, a_void, a_vote, content_hash, pseudonym

RATED = a_contest(contest_type="rating", free=Limits(1, 1), renewal=Renewal(cooldown_us=1_000))
"""One rating a millisecond, and one that replaces it."""


@pytest.fixture(params=["model", pytest.param("lua", marks=pytest.mark.servers)])
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

    def ask(self, contest: Contest, command: CastVote) -> Any:
        """Ask for a reservation by a configuration that is in force."""
        answer = self.ledger.reserve(contest, command)
        if isinstance(answer, Stale):
            self.ledger.put_in_force(contest, answer.incarnation)
            answer = self.ledger.reserve(contest, command)
        return answer

    def reserve(self, contest: Contest, command: CastVote) -> Granted:
        answer = self.ask(contest, command)
        assert isinstance(answer, Granted), answer
        return answer

    def cast(self, contest: Contest, *commands: CastVote) -> None:
        """Reserve and fold, one after the other."""
        for command in commands:
            self.append(cast_of(command, self.reserve(contest, command), "receipt"))
            self.fold()

    def status(self, vote_id: str) -> VoteStatus | None:
        return self.ledger.lookup(a_removal(vote_id)).status


def a_removal(vote_id: str) -> RemoveVote:
    return RemoveVote("contest", pseudonym("voter"), vote_id)


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
    ledger.put_in_force(old, answer.incarnation)
    assert isinstance(ledger.reserve(old, a_vote(count=5)), Stale)
    ledger.put_in_force(new, answer.incarnation)
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


def test_a_vote_is_not_removed_from_under_the_one_that_replaces_it(ledger: Ledger) -> None:
    """Else that one would use the allowance of its own period, which another vote may have."""
    log = Log(ledger)
    log.fence()
    log.cast(RATED, a_rating("a", vote_id="first"))
    ledger.tick(turns=5)
    replacing, other = a_rating("a", vote_id="replacing"), a_rating("b", vote_id="other")
    granted = [cast_of(vote, log.reserve(RATED, vote), "receipt") for vote in (replacing, other)]
    assert ledger.remove(RATED, a_removal("first")) == NotFolded()
    log += granted
    log.fold()
    assert [log.status(name) for name in ("replacing", "other")] == [VoteStatus.COUNTED] * 2
    assert isinstance(ledger.remove(RATED, a_removal("first")), NotCounted)


def test_a_vote_waits_for_the_removal_of_the_one_that_it_would_replace(ledger: Ledger) -> None:
    log, command = Log(ledger), a_removal("first")
    removing = Removing(command)
    log.fence()
    log.cast(RATED, a_rating("a", vote_id="first"))
    ledger.tick(turns=5)
    removal = ledger.remove(RATED, command)
    assert isinstance(removal, RemovalGranted)
    replacing = a_rating("a", vote_id="replacing")
    assert log.ask(RATED, replacing) == GateClosed()
    log.append(removing.event(removal))
    log.fold()
    log.reserve(RATED, replacing)
    assert isinstance(log.ask(RATED, a_rating("b", vote_id="other")), OverLimit)


def test_a_vote_does_not_rely_on_a_pending_one_of_larger_limits(ledger: Ledger) -> None:
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


def test_a_replacement_takes_its_allowance_once_what_came_before_it_is_given_up(ledger: Ledger) -> None:
    log = Log(ledger)
    log.fence()
    first = a_rating("a", vote_id="first")
    granted = log.reserve(RATED, first)
    log.reserve(RATED, a_rating("a", vote_id="replacing"))
    ledger.release(first, granted.incarnation)
    assert isinstance(log.ask(RATED, a_rating("b", vote_id="other")), OverLimit)


def test_after_a_reopening_nobody_is_admitted_before_its_mark(ledger: Ledger) -> None:
    """A mark of the closing may still be on its way."""
    log, vote, reopened = Log(ledger), a_vote(), a_contest(reopened=1)
    log.fence()
    assert log.ask(reopened, vote) == GateClosed()
    log += [ContestReopened("contest", 1)]
    log.fold()
    granted = log.reserve(reopened, vote)
    log += [ContestClosed("contest", 1), cast_of(vote, granted, "receipt")]
    log.fold()
    assert log.status(vote.vote_id) is VoteStatus.COUNTED


def test_a_reopening_in_parts_is_a_closing_until_the_last(ledger: Ledger) -> None:
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


def test_what_was_cast_between_two_renewals_is_the_latest_vote_too(ledger: Ledger) -> None:
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


def test_no_period_begins_while_a_vote_of_the_last_but_one_is_pending(ledger: Ledger) -> None:
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


def test_a_vote_of_the_former_period_that_lands_late_is_judged_by_its_own_sum(ledger: Ledger) -> None:
    log, contest = Log(ledger), a_contest(free=Limits(1, 1), renewal=Renewal(cooldown_us=1_000))
    log.fence()
    log.cast(contest, a_vote(vote_id="0"))
    ledger.tick(turns=5)
    former = a_vote(vote_id="1")
    late = cast_of(former, log.reserve(contest, former), "receipt")
    ledger.tick(turns=5)
    log.cast(contest, a_vote(vote_id="2"))
    twice = replace(late, vote_id="twice")
    log += [late, twice]
    log.fold()
    assert [log.status(name) for name in ("1", "twice")] == [VoteStatus.COUNTED, VoteStatus.OVERRULED]
    assert ledger.differences(folded(log)) == []


def test_a_voter_does_not_join_a_refund(ledger: Ledger) -> None:
    """It would be told that the vote is removed, while the refund waits behind the contest's close."""
    log, vote = Log(ledger), a_vote(source="c-paid")
    log.fence()
    log.cast(a_contest(), vote)
    assert isinstance(ledger.refund(vote), RemovalGranted)
    assert ledger.remove(a_contest(), a_removal(vote.vote_id)) == Paid()


def a_removed(log: Log, vote_id: str) -> Any:
    """Ask for the removal by its voter; not in the log yet."""
    return log.ledger.remove(a_contest(), a_removal(vote_id))


def test_a_late_copy_of_a_voiding_does_not_void_what_was_restored(ledger: Ledger) -> None:
    log, vote = Log(ledger), a_vote()
    log.fence()
    log.cast(a_contest(), vote)
    log += [a_void(), a_restore(), a_void()]
    log.fold()
    assert log.status("vote") is VoteStatus.COUNTED
    assert ledger.differences(folded(log)) == []


def test_a_late_copy_of_a_restoring_does_not_restore_what_another_operation_voided(ledger: Ledger) -> None:
    log, vote = Log(ledger), a_vote()
    log.fence()
    log.cast(a_contest(), vote)
    log += [a_void(), a_restore(), a_void(void="other"), a_restore()]
    log.fold()
    assert log.status("vote") is VoteStatus.VOIDED
    assert ledger.differences(folded(log)) == []


def test_what_was_removed_while_it_was_voided_is_not_restored(ledger: Ledger) -> None:
    log, vote = Log(ledger), a_vote(source="c-paid")
    log.fence()
    log.cast(a_contest(paid=Limits(-1, -1)), vote)
    log += [a_void()]
    log.fold()
    granted = ledger.refund(vote)
    log += [Removing(vote).event(granted), a_restore()]
    log.fold()
    assert log.status("vote") is VoteStatus.REMOVED
    assert ledger.differences(folded(log)) == []


def test_no_contest_is_closed_while_a_removal_is_pending(ledger: Ledger) -> None:
    log, vote = Log(ledger), a_vote()
    log.fence()
    log.cast(a_contest(), vote)
    assert ledger.closing("contest").pending == 0
    assert isinstance(a_removed(log, "vote"), RemovalGranted)
    assert ledger.closing("contest").pending == 1


def test_of_voidings_and_restorings_behind_the_close_none_is_lost(ledger: Ledger) -> None:
    """Else the operation that voids it in the end could not be undone."""
    log, vote = Log(ledger), a_vote()
    log.fence()
    log.cast(a_contest(), vote)
    log += [
        a_void(),
        ContestClosed("contest", 1),
        a_restore(),
        a_void(void="other"),
        ContestReopened("contest", 1),
    ]
    log.fold()
    assert log.status("vote") is VoteStatus.VOIDED
    log += [a_restore(void="other")]
    log.fold()
    assert log.status("vote") is VoteStatus.COUNTED
    assert ledger.differences(folded(log)) == []


def test_a_voter_takes_back_no_voided_vote_and_joins_a_removal_that_came_before(ledger: Ledger) -> None:
    """A removal answered with 204 must not count again once it is restored."""
    log, vote = Log(ledger), a_vote()
    log.fence()
    log.cast(a_contest(), vote)
    first = a_removed(log, "vote")
    log += [a_void()]
    log.fold()
    assert isinstance(a_removed(log, "vote"), RemovalGranted)
    log.fence()
    assert a_removed(log, "vote") == NotCounted(VoteStatus.VOIDED, 2)
    assert not is_removed(ledger.lookup(vote))
    log += [Removing(a_removal("vote")).event(first), a_restore()]
    log.fold()
    assert log.status("vote") is VoteStatus.COUNTED
