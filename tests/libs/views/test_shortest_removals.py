"""Defects of removals, refunds and voids, each by its shortest schedule."""

from typing import Any

from libs.tally.reservations import (
    GateClosed,
    NotCounted,
    NotFolded,
    OverLimit,
    Paid,
    RemovalGranted,
    cast_of,
)
from libs.tally.voter_ledger import VoteStatus
from libs.voting.protocol.removal import is_removed
from tests.libs.views.lua_ledger import LuaLedger
from tests.libs.views.partition import removal_event
from tests.libs.views.scheduled_log import RATED, Log, a_removal
from tests.support.builders import a_contest, a_rating, a_restore, a_void, a_vote


def test_a_vote_is_not_removed_from_under_the_one_that_replaces_it(ledger: LuaLedger) -> None:
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


def test_a_vote_waits_for_the_removal_of_the_one_that_it_would_replace(ledger: LuaLedger) -> None:
    log, command = Log(ledger), a_removal("first")
    log.fence()
    log.cast(RATED, a_rating("a", vote_id="first"))
    ledger.tick(turns=5)
    removal = ledger.remove(RATED, command)
    assert isinstance(removal, RemovalGranted)
    replacing = a_rating("a", vote_id="replacing")
    assert log.ask(RATED, replacing) == GateClosed()
    log.append(removal_event(command, removal))
    log.fold()
    log.reserve(RATED, replacing)
    assert isinstance(log.ask(RATED, a_rating("b", vote_id="other")), OverLimit)


def test_a_voter_does_not_join_a_refund(ledger: LuaLedger) -> None:
    """The answer would be that the vote is removed, while the refund waits after the contest's close."""
    log, vote = Log(ledger), a_vote(source="c-paid")
    log.fence()
    log.cast(a_contest(), vote)
    assert isinstance(ledger.refund(vote), RemovalGranted)
    assert ledger.remove(a_contest(), a_removal(vote.vote_id)) == Paid()


def a_removed(log: Log, vote_id: str) -> Any:
    """Ask for the removal by its voter; not in the log yet."""
    return log.ledger.remove(a_contest(), a_removal(vote_id))


def test_a_voter_takes_back_no_voided_vote_and_joins_a_removal_that_came_before(ledger: LuaLedger) -> None:
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
    log += [removal_event(a_removal("vote"), first), a_restore()]
    log.fold()
    assert log.status("vote") is VoteStatus.COUNTED
