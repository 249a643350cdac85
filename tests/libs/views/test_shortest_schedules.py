"""Guards that no seed of the simulation is known to notice, each by its shortest schedule."""

from dataclasses import replace

from libs.tally.contest import Limits, Renewal
from libs.tally.reservations import OverLimit, Paid, RemovalGranted
from tests.libs.views.lua_ledger import LuaLedger
from tests.libs.views.scheduled_log import Log, a_removal
from tests.support.builders.contests import a_contest, a_vote


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


def test_a_voter_does_not_join_a_refund(ledger: LuaLedger) -> None:
    """The answer would be that the vote is removed, while the refund waits after the contest's close."""
    log, vote = Log(ledger), a_vote(source="c-paid")
    log.fence()
    log.cast(a_contest(), vote)
    assert isinstance(ledger.refund(vote), RemovalGranted)
    assert ledger.remove(a_contest(), a_removal(vote.vote_id)) == Paid()
