"""The protocol of a removal, by the voter and by a refund."""

from typing import Any

import pytest

from libs.contracts.vote_states import VoteState
from libs.tally.errors import (
    AppendUnknown,
    LedgerCatchingUp,
    LogUnavailable,
    NotAppended,
    NotFound,
    TallyError,
    ViewsUnavailable,
    VoteRemovalNotAllowed,
)
from libs.tally.events import VoteCast, VoteRemoved, address_takers
from libs.tally.reservations import (
    GateClosed,
    NotCounted,
    NotFolded,
    Paid,
    RefusedByCaller,
    RemovalGranted,
    Stale,
    Unknown,
)
from libs.tally.vote_commands import RemoveVote
from libs.tally.voter_ledger import VoteStatus
from libs.voting.protocol.effects import Append, AwaitGate, AwaitVote, GiveAddress, Release, ReserveRemoval, Steps
from libs.voting.protocol.removal import remove_vote
from libs.voting.protocol.shared_steps import Removed
from tests.libs.voting.protocol.steps import APPENDED, folded, names, play, progress
from tests.support.builders.contests import a_cast, a_contest, a_vote

CONTEST = a_contest(ip_restriction_per_participant=-1, is_vote_removal_allowed=True)
LIMITED = a_contest(ip_restriction_per_participant=2, is_vote_removal_allowed=True)
PAID = a_vote(source="c-paid")
REMOVAL = RemoveVote(PAID.contest, PAID.voter, PAID.vote_id)
GRANTED = RemovalGranted(2_000, 7, False, PAID.content, "c-free", 30)


def removing(contest: Any = CONTEST) -> Steps[Removed | TallyError]:
    return remove_vote(REMOVAL, contest, 5, None)


def refunding() -> Steps[Removed | TallyError]:
    return remove_vote(PAID, None, 5, None)


@pytest.mark.parametrize(("steps", "reason"), [(removing, "voter"), (refunding, "refund")])
def test_a_removal_is_reserved_appended_and_confirmed(steps: Any, reason: str) -> None:
    effects, outcome = play(steps(), GRANTED, APPENDED, True)
    assert names(effects) == ["ReserveRemoval", "Append", "Confirm"]
    assert isinstance(effects[1], Append)
    assert isinstance(effects[1].event, VoteRemoved)
    assert (effects[1].event.reason, effects[1].event.incarnation) == (reason, 7)
    assert outcome == Removed(5, 40)


@pytest.mark.parametrize("cast", [a_cast(address="address"), None], ids=["read", "not to be had"])
def test_the_votes_record_is_read_before_anything_is_reserved_and_its_address_given_back_at_last(
    cast: VoteCast | None,
) -> None:
    """A record that cannot be read stops no removal."""
    effects, outcome = play(removing(LIMITED), cast, GRANTED, APPENDED, True, *[None] * bool(cast))
    uses = tuple(("a", taker) for taker in address_takers(REMOVAL.voter, REMOVAL.vote_id))
    assert names(effects[:4]) == ["ReadVote", "ReserveRemoval", "Append", "Confirm"]
    assert effects[4:] == [GiveAddress("address", uses, removed=True)] * bool(cast)
    assert outcome == Removed(5, 40)


def test_a_removal_that_is_certainly_not_in_the_log_is_released() -> None:
    refused = NotAppended("no")
    effects, outcome = play(removing(), GRANTED, refused, None)
    assert effects[-1] == Release(7, removal=True)
    assert outcome is refused


@pytest.mark.parametrize("status", [VoteStatus.COUNTED, VoteStatus.VOIDED])
def test_a_removal_that_a_fence_ended_is_reserved_again(status: VoteStatus) -> None:
    """Also of a vote that was voided meanwhile, since it may be restored."""
    state = folded(PAID.content, status)
    effects, _ = play(removing(), GRANTED, AppendUnknown("no"), state, NotCounted(VoteStatus.REMOVED, 31))
    assert names(effects) == ["ReserveRemoval", "Append", "AwaitRecord", "ReserveRemoval"]


def test_a_removal_in_doubt_is_answered_by_the_fold_or_unknown() -> None:
    in_doubt = GRANTED, AppendUnknown("no")
    waiting = VoteState(progress(), status=VoteStatus.COUNTED, removal_waits=True)
    assert play(removing(), *in_doubt, folded(PAID.content, VoteStatus.REMOVED))[1] == Removed(5, None)
    assert play(refunding(), *in_doubt, waiting)[1] == Removed(5, None)
    assert isinstance(play(removing(), *in_doubt, None)[1], LogUnavailable)


@pytest.mark.parametrize(
    ("steps", "answer", "outcome"),
    [
        (removing, NotCounted(VoteStatus.REPLACED, 30), Removed),
        (refunding, NotCounted(VoteStatus.VOIDED, 30), Removed),
        (removing, NotCounted(VoteStatus.VOIDED, 30), VoteRemovalNotAllowed),
        (removing, Paid(), VoteRemovalNotAllowed),
        (removing, RefusedByCaller(5), VoteRemovalNotAllowed),
        (removing, Unknown(), NotFound),
        (removing, ViewsUnavailable("away"), ViewsUnavailable),
    ],
)
def test_what_does_not_count_needs_no_removal_and_a_voter_is_refused_others(
    steps: Any, answer: Any, outcome: type[object]
) -> None:
    _, found = play(steps(), answer)
    assert type(found) is outcome
    assert outcome is not Removed or found == Removed(5, None)


def test_a_pending_vote_is_waited_for_each_time_for_progress() -> None:
    decided = VoteState(progress(offset=9))
    effects, outcome = play(removing(), NotFolded(), decided, NotFolded(), None)
    waits = [effect for effect in effects if isinstance(effect, AwaitVote)]
    assert [wait.since for wait in waits] == [None, decided.progress]
    assert not waits[0].is_decided(VoteState(progress(), pending=True))
    assert isinstance(outcome, LedgerCatchingUp)


def test_a_closed_gate_is_waited_for() -> None:
    effects, outcome = play(refunding(), GateClosed(), progress(), GateClosed(), None)
    assert AwaitGate(progress()) in effects
    assert isinstance(outcome, LedgerCatchingUp)


def test_a_stale_configuration_is_loaded_and_asked_by_again() -> None:
    loaded = a_contest(version=2, ip_restriction_per_participant=-1)
    effects, _ = play(removing(), Stale(None, 7), loaded, True)
    assert names(effects) == ["ReserveRemoval", "LoadContest", "PutInForce", "ReserveRemoval"]
    assert effects[-1] == ReserveRemoval(loaded)
