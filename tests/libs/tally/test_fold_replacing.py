"""The fold of ratings and ballots: a later one replaces the earlier of its slot."""

from typing import Any

from libs.tally.counts import RatingSums, VoteSums
from libs.tally.events import Rating, VoteCast
from libs.tally.voter_ledger import VoteStatus
from tests.libs.tally.given_events import all_figures, figures, given, standing, statuses, used
from tests.support.builders import a_cast, a_removal

MILLION = 1_000_000
COUNTED, OVERRULED, REMOVED, REPLACED = (
    VoteStatus.COUNTED,
    VoteStatus.OVERRULED,
    VoteStatus.REMOVED,
    VoteStatus.REPLACED,
)


def a_rating(vote_id: str, participant: str = "a", value: int = 3 * MILLION, **changes: Any) -> VoteCast:
    rating = Rating(value, changes.pop("subs", ()))
    given = {"form": "rating", "rating": rating, "max_participant": 1, **changes}
    return a_cast(participant, vote_id=vote_id, **given)


def a_ballot(vote_id: str, *choices: tuple[str, int], **changes: Any) -> VoteCast:
    return a_cast(vote_id=vote_id, form="ballot", choices=choices, **changes)


def test_a_rating_takes_the_place_of_the_voters_former_one_of_that_participant() -> None:
    tally = given(
        a_rating("1", value=1 * MILLION),
        a_rating("2", "b", 2 * MILLION),
        a_rating("3", value=5 * MILLION),
        a_rating("4", value=4 * MILLION, voter="other"),
    )
    assert statuses(tally) == {"1": REPLACED, "2": COUNTED, "3": COUNTED}
    assert figures(tally, "a", "c-free") == VoteSums(2, 2, 0)
    ratings = tally.contests["contest"].ratings
    assert ratings == {
        "": RatingSums(3, 11 * MILLION, {}, (0, 0, 1, 0, 1, 1)),
        "a": RatingSums(2, 9 * MILLION, {}, (0, 0, 0, 0, 1, 1)),
        "b": RatingSums(1, 2 * MILLION, {}, (0, 0, 1)),
    }


def test_sub_ratings_are_summed_apart_and_leave_with_their_rating() -> None:
    tally = given(
        a_rating("1", subs=(("taste", MILLION), ("look", 2 * MILLION))),
        a_rating("2", subs=(("taste", 4 * MILLION),)),
    )
    assert tally.contests["contest"].ratings["a"].sub_ratings == {"taste": (1, 4 * MILLION), "look": (0, 0)}


def test_where_several_are_admitted_the_limit_judges_and_nothing_is_replaced() -> None:
    tally = given(*(a_rating(name, max_participant=2) for name in "123"))
    assert statuses(tally) == {"1": COUNTED, "2": COUNTED, "3": OVERRULED}
    assert tally.contests["contest"].ratings["a"].count == 2


def test_once_only_one_is_admitted_the_latest_is_replaced() -> None:
    tally = given(a_rating("1", max_participant=2), a_rating("2", max_participant=2), a_rating("3"))
    assert statuses(tally) == {"1": COUNTED, "2": REPLACED, "3": COUNTED}


def test_a_replacement_uses_no_allowance_of_the_contest() -> None:
    tally = given(a_rating("1", max_contest=1), a_rating("2", max_contest=0), a_rating("3", "b", max_contest=1))
    assert statuses(tally) == {"1": REPLACED, "2": COUNTED, "3": OVERRULED}
    assert used(tally) == {("a", "c-free", 0): 1, ("", "c-free", 0): 1}


def test_a_replacement_belongs_to_the_period_of_what_it_replaces() -> None:
    at: dict[str, Any] = {"next_free_vote_at": 99}
    tally = given(
        a_rating("1", max_contest=1, **at),
        a_rating("2", max_contest=1, epoch=1, **at),
        a_rating("3", "b", max_contest=1, epoch=1, **at),
    )
    assert statuses(tally) == {"1": REPLACED, "2": COUNTED, "3": COUNTED}
    assert standing(tally).votes["2"].epoch == 0
    assert used(tally) == {
        ("a", "c-free", 0): 1,
        ("", "c-free", 0): 1,
        ("b", "c-free", 1): 1,
        ("", "c-free", 1): 1,
    }


def test_free_and_paid_ratings_stand_side_by_side() -> None:
    tally = given(a_rating("1"), a_rating("2", source="c-paid"))
    assert statuses(tally) == {"1": COUNTED, "2": COUNTED}
    assert figures(tally, "a", "") == VoteSums(0, 1, 0)


def test_a_ballot_counts_each_choice_and_is_one_vote_against_the_contests_limit() -> None:
    tally = given(a_ballot("1", ("a", 5), ("b", 3), max_contest=1))
    assert statuses(tally) == {"1": COUNTED}
    assert figures(tally, "a", "c-free") == VoteSums(5, 1, 0)
    assert figures(tally, "b", "c-free") == VoteSums(3, 1, 0)
    assert figures(tally, "", "c-free") == VoteSums(8, 1, 0)
    assert used(tally) == {("a", "c-free", 0): 5, ("b", "c-free", 0): 3, ("", "c-free", 0): 1}


def test_a_new_ballot_takes_the_place_of_the_old_one_as_a_whole() -> None:
    tally = given(a_ballot("1", ("a", 5), ("b", 3)), a_ballot("2", ("b", 5)), a_ballot("3", ("c", 5), voter="x"))
    assert statuses(tally) == {"1": REPLACED, "2": COUNTED}
    assert all_figures(tally).keys() == {(name, source) for name in ("b", "c", "") for source in ("c-free", "")}
    assert figures(tally, "", "c-free") == VoteSums(10, 2, 0)


def test_the_allowance_of_an_overruled_ballot_is_nobodys_to_take() -> None:
    tally = given(a_ballot("1", ("a", 5), max_contest=0), a_ballot("2", ("b", 5), max_contest=1))
    assert statuses(tally) == {"1": OVERRULED, "2": COUNTED}


def test_what_replaced_a_vote_may_be_removed_and_brings_nothing_back() -> None:
    tally = given(a_rating("1"), a_rating("2"), a_removal("2"), a_rating("3"))
    assert statuses(tally) == {"1": REPLACED, "2": REMOVED, "3": COUNTED}
    assert used(tally) == {("a", "c-free", 0): 1, ("", "c-free", 0): 1}


def test_ratings_that_were_taken_back_leave_no_trace() -> None:
    tally = given(a_rating("1", subs=(("taste", MILLION),)), a_rating("2"), a_removal("2"))
    assert all_figures(tally) == {}
    left = tally.contests["contest"].ratings["a"]
    assert (left.count, left.total, left.sub_ratings, set(left.values)) == (0, 0, {"taste": (0, 0)}, {0})
    assert +tally.contests["contest"].ids == {REMOVED: 1, REPLACED: 1}
