"""The protocol of a vote: its effects, their order, and its outcome by their replies."""

from typing import Any

import pytest

from libs.contracts.log_records import Appended
from libs.contracts.vote_states import VoteState
from libs.tally.errors import (
    AppendUnknown,
    IdempotencyKeyReused,
    LedgerCatchingUp,
    LimitReached,
    LimitScope,
    LogUnavailable,
    NotAppended,
    NotFound,
    ViewsUnavailable,
)
from libs.tally.events import VoteCast, address_takers
from libs.tally.reservations import GateClosed, IdConflict, NotRunning, OverLimit, RefusedByCaller, Stale, cast_of
from libs.tally.voter_ledger import VoteStatus
from libs.voting.protocol.casting import cast_vote
from libs.voting.protocol.effects import (
    AddressTaken,
    Append,
    AwaitGate,
    AwaitRecord,
    Confirm,
    GiveAddress,
    LoadContest,
    PutInForce,
    ReadCast,
    Release,
    Reserve,
    Steps,
    TakeAddress,
)
from libs.voting.protocol.shared_steps import Accepted, Outcome
from tests.libs.voting.protocol.steps import APPENDED, duplicate, folded, granted, names, play, progress
from tests.support.builders.contests import a_contest, a_rating, a_vote

CONTEST = a_contest(ip_restriction_per_participant=-1)
LIMITED = a_contest(ip_restriction_per_participant=2)
VOTE = a_vote()
FROM_ADDRESS = a_vote(address="address")
OWN_NAME = address_takers(FROM_ADDRESS.voter, FROM_ADDRESS.vote_id)[0]
RATED = a_rating("a", address="address")

AWAY = ViewsUnavailable("away")
OVER = OverLimit(LimitScope.CONTEST, 1, 1, None, 5)
IN_DOUBT = [granted(), AppendUnknown("no answer")]
FENCED = VoteState(progress(8))
"""The fold's answer for a record in doubt that a fence ended."""


class Receipts:
    """Names a receipt by its time; of a vote from `unsure` on only the record tells it."""

    def __init__(self, unsure: int = 1 << 53) -> None:
        self.unsure = unsure

    def sign(self, accepted_at: int) -> str:
        return f"receipt at {accepted_at}"

    def find(self, accepted_at: int) -> str | None:
        return None if accepted_at >= self.unsure else self.sign(accepted_at)


def steps(contest: Any = CONTEST, vote: Any = VOTE, receipts: Receipts = Receipts()) -> Steps[Outcome]:  # noqa: B008
    return cast_vote(vote, contest, 5, receipts)


def test_a_vote_is_reserved_then_appended_then_confirmed() -> None:
    effects, outcome = play(steps(), granted(), APPENDED, True)
    assert names(effects) == ["Reserve", "Append", "Confirm"]
    assert isinstance(outcome, Accepted)
    assert (outcome.offset, outcome.partition, outcome.replayed) == (40, 5, False)
    assert outcome.receipt == "receipt at 1000"


def test_the_record_has_what_was_granted_and_not_the_workers_configuration() -> None:
    effects, _ = play(steps(), granted(config=2, max_participant=9, max_contest=8, epoch=4))
    assert isinstance(effects[1], Append)
    event = effects[1].event
    assert isinstance(event, VoteCast)
    terms = event.config, event.max_participant, event.max_contest, event.epoch, event.incarnation
    assert terms == (2, 9, 8, 4, 7)


@pytest.mark.parametrize(
    ("appended", "confirmed", "offset"),
    [
        (APPENDED, False, 40),
        (APPENDED, AWAY, 40),
        (Appended(0, -1, False), True, None),
    ],
)
def test_what_is_not_confirmed_at_a_certain_offset_is_in_doubt(
    appended: Appended, confirmed: Any, offset: int | None
) -> None:
    effects, _ = play(steps(), granted(), appended, confirmed)
    assert isinstance(effects[-1], AwaitRecord)
    assert effects[-1][1:] == (7, offset)


def test_a_record_of_unknown_outcome_is_neither_released_nor_confirmed() -> None:
    effects, outcome = play(steps(), *IN_DOUBT, None)
    assert names(effects) == ["Reserve", "Append", "AwaitRecord"]
    assert isinstance(outcome, AppendUnknown)


def test_a_record_that_is_certainly_not_in_the_log_is_released() -> None:
    refused = NotAppended("no")
    effects, outcome = play(steps(), granted(), refused, None)
    assert effects[-1] == Release(7, removal=False)
    assert outcome is refused


def test_the_fold_answers_for_a_record_in_doubt() -> None:
    _, outcome = play(steps(), *IN_DOUBT, folded(VOTE.content))
    assert isinstance(outcome, Accepted)
    assert (outcome.terms.accepted_at, outcome.offset, outcome.receipt) == (900, 30, "receipt at 900")


def test_a_record_that_a_fence_ended_is_reserved_again_as_the_same_request() -> None:
    effects, outcome = play(steps(), *IN_DOUBT, FENCED, granted(incarnation=8), APPENDED, True)
    assert names(effects) == ["Reserve", "Append", "AwaitRecord", "Reserve", "Append", "Confirm"]
    assert effects[-1] == Confirm(8)
    assert isinstance(outcome, Accepted)
    assert not outcome.replayed


ERRORS: dict[str, tuple[list[Any], type[Exception]]] = {
    "the id of another vote": ([IdConflict()], IdempotencyKeyReused),
    "over a limit": ([OVER], LimitReached),
    "a reservation that fails": ([AWAY], ViewsUnavailable),
    "in doubt, the id of another vote": ([*IN_DOUBT, folded("other")], IdempotencyKeyReused),
    "ended by a fence, a reservation that fails": ([*IN_DOUBT, FENCED, AWAY], LogUnavailable),
    "no contest": ([Stale(None, 7), NotFound("gone")], NotFound),
    "a contest that cannot be put in force": ([Stale(None, 7), CONTEST, False], LedgerCatchingUp),
    "a contest whose putting in force fails": ([Stale(None, 7), CONTEST, AWAY], ViewsUnavailable),
}


@pytest.mark.parametrize(("replies", "error"), ERRORS.values(), ids=ERRORS)
def test_a_vote_that_cannot_be_cast_ends_with_an_error(replies: list[Any], error: type[Exception]) -> None:
    _, outcome = play(steps(), *replies)
    assert type(outcome) is error


def test_a_closed_gate_is_waited_for_each_time_for_progress() -> None:
    first = progress()
    effects, outcome = play(steps(), GateClosed(), first, GateClosed(), None)
    assert [effect for effect in effects if isinstance(effect, AwaitGate)] == [AwaitGate(None), AwaitGate(first)]
    assert isinstance(outcome, LedgerCatchingUp)


def test_where_nothing_is_in_force_a_load_after_the_answer_is_put_there_under_its_fence_epoch() -> None:
    loaded = a_contest(ip_restriction_per_participant=-1, version=2)
    effects, _ = play(steps(), Stale(None, 7), loaded, True)
    assert effects[1:3] == [LoadContest(CONTEST, None), PutInForce(loaded, 7)]
    assert isinstance(effects[3], Reserve)
    assert effects[3].request.contest is loaded


def test_a_version_in_force_is_loaded_and_only_a_later_one_is_put_in_force() -> None:
    loaded = a_contest(ip_restriction_per_participant=-1, version=4)
    effects, _ = play(steps(), Stale(4, 7), loaded)
    assert names(effects) == ["Reserve", "LoadContest", "Reserve"]
    assert effects[1] == LoadContest(CONTEST, 4)
    effects, _ = play(steps(), Stale(3, 7), loaded)
    assert effects[-1] == PutInForce(loaded, 7)


def test_a_repeated_vote_gets_its_first_answer() -> None:
    _, outcome = play(steps(), duplicate())
    assert isinstance(outcome, Accepted)
    assert (outcome.replayed, outcome.offset, outcome.terms.choices) == (True, 30, (("a", 1),))
    assert outcome.receipt == "receipt at 900"


@pytest.mark.parametrize(
    "began",
    [
        [duplicate()],
        [*IN_DOUBT, folded(VOTE.content)],
        [granted(joined=True), APPENDED, True, folded(VOTE.content)],
    ],
    ids=["folded", "in doubt", "pending"],
)
def test_a_receipt_that_another_secret_may_have_signed_is_that_of_the_record(began: list[Any]) -> None:
    recorded = cast_of(VOTE, granted(), "by another secret")
    effects, outcome = play(steps(receipts=Receipts(900)), *began, recorded)
    assert effects[-1] == ReadCast(30)
    assert isinstance(outcome, Accepted)
    assert outcome.receipt == "by another secret"
    _, unread = play(steps(receipts=Receipts(900)), *began, LogUnavailable("away"))
    assert isinstance(unread, AppendUnknown), "another error would say that it is not recorded"


def test_an_id_that_a_refund_used_up_has_no_record_with_a_receipt() -> None:
    _, outcome = play(steps(receipts=Receipts(900)), duplicate(VoteStatus.REMOVED), None)
    assert isinstance(outcome, Accepted)
    assert outcome.receipt == "receipt at 900"


def test_a_vote_that_its_contest_refuses_is_reserved_without_a_selection() -> None:
    """So that an answer of higher precedence is given, as that of a repeated vote."""
    effects, outcome = play(steps(vote=a_vote("nobody")), RefusedByCaller(5))
    assert isinstance(effects[0], Reserve)
    assert effects[0].request.selection is None
    assert isinstance(outcome, NotFound)


def test_an_address_is_used_before_the_reservation_and_kept_by_an_accepted_vote() -> None:
    effects, _ = play(steps(LIMITED, FROM_ADDRESS), AddressTaken(("a",)), granted(), APPENDED, True)
    assert names(effects) == ["TakeAddress", "Reserve", "Append", "Confirm"]
    assert isinstance(effects[1], Reserve)
    assert effects[0] == TakeAddress(LIMITED, OWN_NAME, (("a", 1),), effects[1].request)


def test_a_vote_that_replaces_another_uses_the_address_in_its_voters_name() -> None:
    contest = a_contest(contest_type="rating", ip_restriction_per_participant=2)
    effects, _ = play(steps(contest, RATED))
    assert [effect[:3] for effect in effects] == [(contest, RATED.voter, (("a", 1),))]


def test_an_exhausted_address_is_refused_and_uses_nothing() -> None:
    effects, outcome = play(steps(LIMITED, FROM_ADDRESS), AddressTaken((), 2), RefusedByCaller(5))
    assert isinstance(effects[1], Reserve)
    assert effects[1].request.selection is None
    assert isinstance(outcome, LimitReached)
    assert outcome.code == LimitReached(LimitScope.IP, 2, 2).code


@pytest.mark.parametrize(
    ("replies", "gives"),
    [
        ([NotRunning(5)], True),
        ([OVER], True),
        ([IdConflict()], True),  # the other vote of the id has a hold of its own
        ([duplicate(VoteStatus.COUNTED)], False),
        ([duplicate(VoteStatus.REPLACED)], False),
        ([duplicate(VoteStatus.VOIDED)], False),
        ([duplicate(VoteStatus.REMOVED)], True),
        ([granted(), NotAppended("no"), None], True),  # after its reservation is released
        ([*IN_DOUBT, None], False),
        ([*IN_DOUBT, FENCED, OVER], True),  # an attempt uses the address once
    ],
)
def test_a_vote_that_is_refused_removed_or_not_recorded_gives_its_address_back(
    replies: list[Any], gives: bool
) -> None:
    effects, _ = play(steps(LIMITED, FROM_ADDRESS), AddressTaken(("a",)), *replies, *[None] * gives)
    given = [effect for effect in effects if isinstance(effect, GiveAddress)]
    assert given == [GiveAddress("address", (("a", OWN_NAME),))] * gives
    assert isinstance(effects[-1], GiveAddress) == gives


def test_an_address_that_cannot_be_counted_ends_the_vote() -> None:
    assert play(steps(LIMITED, FROM_ADDRESS), AWAY)[1] is AWAY
