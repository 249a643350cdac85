"""Votes voided and restored by an operator: the used allowance stays used."""

from itertools import permutations
from typing import Any

import pytest

from libs.tally.counts import RatingSums, VoteSums
from libs.tally.events import ContestClosed, ContestReopened, Event
from libs.tally.fold import PartitionTally
from libs.tally.voter_ledger import VoteStatus
from tests.libs.tally.given_events import all_figures, figures, given, standing, statuses, used
from tests.support.builders import a_cast, a_rating, a_removal, a_restore, a_void

COUNTED, VOIDED, REMOVED, REPLACED = VoteStatus.COUNTED, VoteStatus.VOIDED, VoteStatus.REMOVED, VoteStatus.REPLACED
RATING = a_rating("a", 4_000_000).rating
LIMITED: dict[str, Any] = {"max_participant": 1, "max_contest": 1}


def a_rated(vote_id: str) -> Event:
    return a_cast("a", vote_id=vote_id, form="rating", rating=RATING, **LIMITED)


def test_a_voided_vote_counts_no_more_and_uses_what_it_used() -> None:
    tally = given(a_cast(**LIMITED), a_void(), a_cast(vote_id="again", **LIMITED))
    assert all_figures(tally) == {}
    assert statuses(tally) == {"vote": VOIDED, "again": VoteStatus.OVERRULED}
    assert used(tally) == {("a", "c-free", 0): 1, ("", "c-free", 0): 1}


def test_what_is_restored_is_as_though_it_had_never_been_voided() -> None:
    votes = a_rated("vote"), a_cast("b", 2, vote_id="other", anonymous=True)
    before, after = given(*votes), given(*votes, a_void(), a_restore())
    assert all_figures(after) == all_figures(before)
    assert statuses(after) == statuses(before)
    assert used(after) == used(before)
    assert standing(after).slots == standing(before).slots
    assert after.contests["contest"].ratings == before.contests["contest"].ratings
    assert after.contests["contest"].ids == before.contests["contest"].ids


def test_a_rating_replaces_a_voided_one_and_is_not_undone_by_its_restoring() -> None:
    tally = given(a_rated("first"), a_void("first"), a_rated("second"), a_restore("first"))
    assert statuses(tally) == {"first": REPLACED, "second": COUNTED}
    assert figures(tally, "a", "c-free") == VoteSums(1, 1, 0)
    assert used(tally) == {("a", "c-free", 0): 1, ("", "c-free", 0): 1}
    assert tally.contests["contest"].ratings["a"] == RatingSums(1, 4_000_000, {}, (0, 0, 0, 0, 1))


def test_a_removal_of_a_voided_vote_gives_its_allowance_and_its_slot_back() -> None:
    tally = given(a_rated("first"), a_void("first"), a_removal("first"), a_restore("first"))
    assert statuses(tally) == {"first": REMOVED}
    assert used(tally) == {}
    assert standing(tally).slots == {}


def test_a_late_copy_of_a_voiding_does_not_undo_its_restoring() -> None:
    tally = given(a_cast(), a_void(), a_restore(), a_void())
    assert statuses(tally) == {"vote": COUNTED}
    assert tally.duplicates == 1


def test_a_late_copy_of_a_restoring_does_not_undo_what_another_operation_voided() -> None:
    tally = given(a_cast(), a_void(), a_restore(), a_void(void="other"), a_restore())
    assert statuses(tally) == {"vote": VOIDED}
    assert standing(tally).votes["vote"].void == "other"


def test_an_operation_restores_only_what_it_voided_itself() -> None:
    tally = given(a_cast(), a_void(), a_void(void="other"), a_restore(void="other"))
    assert statuses(tally) == {"vote": VOIDED}
    assert tally.duplicates == 2


@pytest.mark.parametrize("order", list(permutations([a_void(), a_restore(), a_void(void="other")])))
def test_behind_the_close_they_wait_and_take_effect_as_they_would_have_before_it(order: tuple[Event, ...]) -> None:
    waiting = given(a_cast(), ContestClosed("contest", 1), *order, *order)
    assert statuses(waiting) == {"vote": COUNTED}
    assert waiting.duplicates == 3
    reopened = given(a_cast(), ContestClosed("contest", 1), *order, *order, ContestReopened("contest", 1))
    assert _shown(reopened) == _shown(given(a_cast(), *order))


def test_removals_that_wait_beside_them_keep_their_place() -> None:
    closed, reopened = ContestClosed("contest", 1), ContestReopened("contest", 1)
    tally = given(a_cast(), closed, a_void(), a_removal(), a_restore(), reopened)
    assert statuses(tally) == {"vote": REMOVED}
    assert used(tally) == {}


def test_what_never_counted_is_not_voided() -> None:
    closed = ContestClosed("contest", 1)
    tally = given(a_cast(max_participant=0), a_void(), a_void("never"), closed, a_cast(vote_id="late"))
    assert statuses(tally)["vote"] is VoteStatus.OVERRULED
    assert tally.duplicates == 2


def _shown(tally: PartitionTally) -> object:
    vote = standing(tally).votes["vote"]
    return vote.status, vote.void, [event.void for event in vote.voids], all_figures(tally), used(tally)
