"""The fold of one partition: sums, limits and fences; random logs in `tests/libs/views` prove the rest."""

from typing import Any

import pytest

from libs.tally.contest import MILLION
from libs.tally.counts import MOST_VALUE, RatingSums, VoteSums, one_value
from libs.tally.events import Event, Fence, LogCreated
from libs.tally.fold import PartitionTally
from libs.tally.voter_ledger import VoteStatus
from tests.support.builders.contests import a_cast, content_hash, pseudonym


def given(*events: Event) -> PartitionTally:
    tally = PartitionTally()
    for offset, event in enumerate(events):
        tally.evolve(event, offset, 1_000 + offset)
    return tally


def statuses(tally: PartitionTally) -> dict[str, VoteStatus]:
    votes = tally.contests["contest"].voters[pseudonym("voter")].votes
    return {vote_id: vote.status for vote_id, vote in votes.items()}


def figures(tally: PartitionTally, participant: str, source: str) -> VoteSums:
    return tally.contests["contest"].figures[participant, source]


def votes(*counts: int, **changes: Any) -> list[Event]:
    return [a_cast(count=count, vote_id=f"v{i}", **changes) for i, count in enumerate(counts)]


def test_an_id_counts_once_whatever_comes_under_it_later() -> None:
    tally = given(a_cast(count=2), a_cast(count=2), a_cast("b", content=content_hash("b")))
    assert tally.duplicates == 2
    assert figures(tally, "a", "c-free").count == figures(tally, "", "c-free").count == 2


def test_the_same_id_of_another_voter_or_contest_is_another_vote() -> None:
    tally = given(a_cast(), a_cast(voter="other"), a_cast(contest="second"))
    assert tally.duplicates == 0
    assert figures(tally, "a", "c-free") == VoteSums(2, 2, 0)


def test_a_vote_beyond_the_limits_is_overruled_kept_and_not_counted() -> None:
    tally = given(*votes(1, 2, 1, max_participant=2))
    assert list(statuses(tally).values()) == [VoteStatus.COUNTED, VoteStatus.OVERRULED, VoteStatus.COUNTED]
    assert tally.overruled == 1
    assert figures(tally, "a", "c-free") == VoteSums(2, 1, 0)


def test_the_contests_limit_spans_its_participants() -> None:
    tally = given(a_cast("a", vote_id="1", max_contest=1), a_cast("b", vote_id="2", max_contest=1))
    assert statuses(tally)["2"] is VoteStatus.OVERRULED
    assert ("b", "c-free") not in tally.contests["contest"].figures


def test_the_largest_limit_that_the_votes_of_a_sum_carry_judges() -> None:
    lowered_later = given(*votes(2, max_participant=3), a_cast(vote_id="late", max_participant=1))
    assert statuses(lowered_later)["late"] is VoteStatus.COUNTED
    raised_later = given(*votes(1, max_participant=1), a_cast(vote_id="late", count=4, max_participant=5))
    assert statuses(raised_later)["late"] is VoteStatus.COUNTED
    beyond_both = given(*votes(3, max_participant=3), a_cast(vote_id="late", max_participant=1))
    assert statuses(beyond_both)["late"] is VoteStatus.OVERRULED
    unlimited = given(*votes(1, max_participant=-1), a_cast(vote_id="late", count=9, max_participant=1))
    assert statuses(unlimited)["late"] is VoteStatus.COUNTED


def test_sources_and_epochs_have_sums_of_their_own() -> None:
    tally = given(
        a_cast(vote_id="1", max_participant=1, max_contest=1),
        a_cast(vote_id="2", max_participant=1, max_contest=1, source="c-paid"),
        a_cast(vote_id="3", max_participant=1, max_contest=1, epoch=1),
    )
    assert tally.overruled == 0
    assert figures(tally, "a", "c-free") == VoteSums(2, 1, 0)


def test_a_fence_shuts_out_votes_of_older_incarnations_and_leaves_their_ids_free() -> None:
    """One of a newer incarnation was admitted after a fence that the log has lost."""
    tally = given(a_cast(), Fence(5), a_cast(vote_id="old"), a_cast(vote_id="ahead", incarnation=6),
                  a_cast(vote_id="old", incarnation=5))  # fmt: skip
    assert tally.fenced == 1
    assert statuses(tally) == dict.fromkeys(("vote", "ahead", "old"), VoteStatus.COUNTED)


def test_a_fence_not_above_the_current_one_or_that_follows_another_one_changes_nothing() -> None:
    assert given(Fence(5), Fence(4), Fence(5)).fence == 5
    assert given(Fence(5), Fence(9, after=4)).fence == 5
    assert given(Fence(5), Fence(9, after=5)).fence == 9


def test_the_start_of_the_log_changes_nothing() -> None:
    assert given(LogCreated("log")) == PartitionTally()


def test_a_voter_counts_once_at_every_level() -> None:
    tally = given(
        a_cast("a", vote_id="1"),
        a_cast("a", vote_id="2", source="c-paid"),
        a_cast("a", vote_id="3"),
        a_cast("b", vote_id="4"),
        a_cast("a", voter="other", vote_id="5", source="c-paid"),
    )
    uniques = {key: (row.unique, row.anonymous) for key, row in tally.contests["contest"].figures.items()}
    assert uniques == {
        ("a", "c-free"): (1, 0),
        ("a", "c-paid"): (2, 0),
        ("a", ""): (2, 0),
        ("b", "c-free"): (1, 0),
        ("b", ""): (1, 0),
        ("", "c-free"): (1, 0),
        ("", "c-paid"): (2, 0),
        ("", ""): (2, 0),
    }


def test_anonymous_voters_are_those_of_the_distinct_voters_who_are() -> None:
    tally = given(a_cast(vote_id="1"), *votes(1, 1, voter="nobody", anonymous=True))
    assert figures(tally, "a", "c-free") == VoteSums(3, 2, 1)
    assert (figures(tally, "", "").unique, figures(tally, "", "").anonymous) == (2, 1)


def test_an_overruled_vote_makes_no_voter() -> None:
    tally = given(a_cast("a", max_participant=0))
    assert tally.contests["contest"].figures == {}
    assert tally.contests["contest"].voters[pseudonym("voter")].used == {}


def test_ids_add_up() -> None:
    tally = given(*votes(1, 1, 1, 1, max_contest=3), a_cast(vote_id="v0"), Fence(9), a_cast())
    contest = tally.contests["contest"]
    assert contest.ids == {VoteStatus.COUNTED: 3, VoteStatus.OVERRULED: 1}
    assert (tally.duplicates, tally.fenced) == (1, 1)
    assert (contest.last_offset, contest.last_time_ms) == (3, 1_003)


@pytest.mark.parametrize(
    ("rating", "value"),
    [
        (0, 0),
        (499_999, 0),
        (500_000, 1),
        (MILLION, 1),
        (4_499_999, 4),
        (4_500_000, 5),
        (1_000 * MILLION, MOST_VALUE),
    ],
)
def test_a_rating_counts_at_the_whole_number_next_to_it(rating: int, value: int) -> None:
    assert one_value(rating) == (*[0] * value, 1)


def test_distributions_add_up_and_cancel_out() -> None:
    low, high = (RatingSums(1, value, {}, one_value(value)) for value in (MILLION, 3 * MILLION))
    assert (low + high + high).values == (0, 1, 0, 2)
    assert (low + high + -high).values == (0, 1, 0, 0)
