"""The fold of removals and refunds, and the state of a removed vote."""

from typing import Any

from libs.tally.counts import VoteSums
from libs.tally.events import Fence
from libs.tally.voter_ledger import VoteStatus
from tests.libs.tally.given_events import all_figures, figures, given, standing, statuses, used
from tests.support.builders import NOW, a_cast, a_removal, content_hash

COUNTED, OVERRULED, REMOVED = VoteStatus.COUNTED, VoteStatus.OVERRULED, VoteStatus.REMOVED


def test_a_removed_vote_gives_its_allowance_back_and_leaves_no_trace() -> None:
    tally = given(a_cast("a", 3, max_participant=3, max_contest=3), a_removal())
    assert statuses(tally) == {"vote": REMOVED}
    assert all_figures(tally) == used(tally) == {}


def test_the_allowance_that_came_back_is_used_again() -> None:
    limits: dict[str, Any] = {"max_participant": 1, "max_contest": 1}
    tally = given(a_cast(vote_id="1", **limits), a_removal("1"), a_cast("b", vote_id="2", **limits))
    assert statuses(tally) == {"1": REMOVED, "2": COUNTED}


def test_a_removal_counts_once_and_the_id_stays_used() -> None:
    tally = given(a_cast(), a_removal(), a_removal(), a_cast())
    assert statuses(tally) == {"vote": REMOVED}
    assert tally.duplicates == 2
    assert tally.contests["contest"].last_offset == 1


def test_who_removed_one_of_two_votes_is_still_a_voter() -> None:
    tally = given(a_cast(vote_id="1", anonymous=True), a_cast("b", vote_id="2", anonymous=True), a_removal("1"))
    assert all_figures(tally) == {
        ("b", "c-free"): VoteSums(1, 1, 1),
        ("b", ""): VoteSums(0, 1, 1),
        ("", "c-free"): VoteSums(1, 1, 1),
        ("", ""): VoteSums(0, 1, 1),
    }


def test_uniques_are_of_each_source_and_of_all() -> None:
    tally = given(a_cast(vote_id="free"), a_cast(vote_id="paid", source="c-paid"), a_removal("free"))
    assert figures(tally, "a", "c-free") == figures(tally, "", "c-free") == VoteSums()
    assert figures(tally, "a", "").unique == figures(tally, "", "").unique == 1


def test_votes_of_an_earlier_period_keep_a_voter_a_voter() -> None:
    tally = given(a_cast(vote_id="1"), a_cast(vote_id="2", epoch=1), a_removal("2"))
    assert figures(tally, "a", "c-free") == VoteSums(1, 1, 0)
    assert used(tally) == {("a", "c-free", 0): 1, ("", "c-free", 0): 1}


def test_an_overruled_vote_stays_so() -> None:
    tally = given(a_cast(max_participant=0), a_removal())
    assert statuses(tally) == {"vote": OVERRULED}
    assert tally.duplicates == 1


def test_an_id_that_never_came_is_used_up() -> None:
    refund = a_removal("purchase", source="c-paid", reason="refund", content=content_hash("purchase"))
    tally = given(refund, a_cast(vote_id="purchase", source="c-paid"))
    assert statuses(tally) == {"purchase": REMOVED}
    assert standing(tally).votes["purchase"].cast.content == content_hash("purchase")
    assert all_figures(tally) == {}
    assert tally.contests["contest"].ids == {REMOVED: 1}
    assert tally.duplicates == 1


def test_removals_of_another_incarnation_change_nothing() -> None:
    tally = given(a_cast(), Fence(5), a_removal(), a_removal(incarnation=6), a_removal("never", incarnation=4))
    assert statuses(tally) == {"vote": COUNTED}
    assert tally.fenced == 3


def test_a_voter_is_anonymous_as_the_first_record_says() -> None:
    tally = given(a_removal("never", anonymous=True), a_cast(anonymous=False))
    assert figures(tally, "a", "c-free") == VoteSums(1, 1, 1)


def test_a_removed_vote_is_still_the_latest_that_allowances_renew_from() -> None:
    cast = a_cast(accepted_at=NOW, next_free_vote_at=NOW + 60, epoch=2)
    after = standing(given(cast, a_removal()))
    assert (after.latest, after.epoch) == (NOW, 2)


def test_neither_paid_votes_nor_those_of_contests_that_never_renewed_are_kept_as_the_latest() -> None:
    for cast in (a_cast(), a_cast(source="c-paid", next_free_vote_at=NOW + 60)):
        assert (standing(given(cast)).latest, standing(given(cast)).epoch) == (0, 0)


def test_once_allowances_renewed_every_free_vote_is_the_latest() -> None:
    renewing = a_cast(vote_id="1", accepted_at=NOW, next_free_vote_at=NOW + 60)
    tally = given(renewing, a_cast(vote_id="2", accepted_at=NOW + 10), a_cast(vote_id="3", accepted_at=NOW + 5))
    assert standing(tally).latest == NOW + 10
    later_period = standing(given(a_cast(epoch=1, accepted_at=NOW)))
    assert (later_period.epoch, later_period.latest) == (1, NOW)
