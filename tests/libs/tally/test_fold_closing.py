"""Close and reopening markers: later events count, wait, or take effect."""

from typing import Any

import pytest

from libs.tally.counts import VoteSums
from libs.tally.events import ContestClosed, ContestReopened, Event, Fence, Rating
from libs.tally.voter_ledger import VoteStatus
from tests.libs.tally.given_events import all_figures, figures, given, source, standing, statuses, used
from tests.support.builders import NOW, a_cast, a_removal, a_report, pseudonym

CLOSED, REOPENED = ContestClosed("contest", 1), ContestReopened("contest", 1)
COUNTED, LATE, REMOVED = VoteStatus.COUNTED, VoteStatus.LATE, VoteStatus.REMOVED


def test_a_vote_behind_the_mark_is_late_and_changes_no_figure() -> None:
    tally = given(a_cast(vote_id="1"), CLOSED, a_cast(vote_id="2"), a_cast(voter="other"))
    assert statuses(tally) == {"1": COUNTED, "2": LATE}
    assert figures(tally, "", "c-free") == VoteSums(1, 1, 0)
    assert used(tally) == {("a", "c-free", 0): 1, ("", "c-free", 0): 1}


def test_a_late_rating_replaces_nothing() -> None:
    rated: dict[str, Any] = {"form": "rating", "rating": Rating(1), "max_participant": 1}
    tally = given(a_cast(vote_id="1", **rated), CLOSED, a_cast(vote_id="2", **rated))
    assert statuses(tally) == {"1": COUNTED, "2": LATE}


def test_what_was_late_stays_late_and_its_id_used() -> None:
    tally = given(CLOSED, a_cast(), REOPENED, a_cast(), a_removal())
    assert statuses(tally) == {"vote": LATE}
    assert all_figures(tally) == {}


def test_late_votes_are_the_latest_that_allowances_renew_from() -> None:
    assert standing(given(CLOSED, a_cast(next_free_vote_at=NOW + 60))).latest == NOW


def test_other_contests_go_on() -> None:
    tally = given(CLOSED, a_cast(contest="second"))
    assert tally.contests["second"].ids == {COUNTED: 1}


def test_the_first_mark_of_a_closing_counts() -> None:
    tally = given(CLOSED, CLOSED)
    assert tally.contests["contest"].closed == 1
    assert tally.contests["contest"].last_offset == 0
    assert tally.duplicates == 1


def test_a_mark_that_was_voided_before_it_came_does_nothing() -> None:
    tally = given(REOPENED, CLOSED, a_cast())
    assert statuses(tally) == {"vote": COUNTED}
    assert tally.contests["contest"].closed == 0


def test_reopening_voids_the_marks_up_to_its_number_and_no_later_one() -> None:
    tally = given(CLOSED, ContestClosed("contest", 2), REOPENED, a_cast())
    assert tally.contests["contest"].closed == 2
    assert tally.contests["contest"].reopened == 1
    assert statuses(tally) == {"vote": LATE}


def test_a_reopening_counts_once() -> None:
    tally = given(CLOSED, REOPENED, REOPENED)
    assert tally.duplicates == 1
    assert tally.contests["contest"].last_offset == 1


def test_a_removal_behind_the_mark_waits() -> None:
    tally = given(a_cast(), CLOSED, a_removal(reason="refund"), a_removal(reason="refund"))
    contest = tally.contests["contest"]
    assert statuses(tally) == {"vote": COUNTED}
    assert contest.waiting.keys() == {(pseudonym("voter"), "vote")}
    assert contest.last_offset == 2
    assert tally.duplicates == 1


def test_removals_that_waited_take_effect_in_their_order_with_the_reopening() -> None:
    tally = given(
        a_cast(vote_id="1", anonymous=True),
        a_cast("b", vote_id="2", voter="other"),
        CLOSED,
        a_removal("2", voter="other"),
        a_removal("1"),
        a_removal("never", voter="third"),
        REOPENED,
    )
    assert tally.contests["contest"].waiting == {}
    assert +tally.contests["contest"].ids == {REMOVED: 3}
    assert statuses(tally, "third") == {"never": REMOVED}
    assert all_figures(tally) == {}


def test_removals_go_on_waiting_where_a_later_mark_is_in_force() -> None:
    tally = given(a_cast(), CLOSED, a_removal(), ContestClosed("contest", 2), REOPENED)
    assert statuses(tally) == {"vote": COUNTED}
    assert len(tally.contests["contest"].waiting) == 1
    tally.evolve(ContestReopened("contest", 2), 9, 9)
    assert statuses(tally) == {"vote": REMOVED}


def test_a_fenced_removal_does_not_wait() -> None:
    tally = given(a_cast(), Fence(5), CLOSED, a_removal(), REOPENED)
    assert statuses(tally) == {"vote": COUNTED}


@pytest.mark.parametrize("mark", [CLOSED, ContestClosed("contest", 1, "tv")])
def test_a_source_goes_on_reporting_behind_other_marks(mark: Event) -> None:
    tally = given(mark, a_report("1", ("x", 5, 1, 0)))
    assert source(tally).figures == {"x": VoteSums(5, 1, 0)}


def test_votes_go_on_behind_the_mark_of_a_source() -> None:
    assert statuses(given(ContestClosed("contest", 1, "sms"), a_cast())) == {"vote": COUNTED}


def test_a_report_behind_its_sources_mark_is_late_and_stays_so() -> None:
    sms = ContestClosed("contest", 1, "sms")
    report = a_report("2", ("x", 9, 1, 0))
    tally = given(a_report("1", ("x", 5, 1, 0)), sms, report, REOPENED, report, a_report("3", ("x", 7, 1, 0)))
    assert source(tally).reports["2"].late
    assert source(tally).figures == {"x": VoteSums(7, 1, 0)}
    assert source(tally).updated_ms == 1_005
    assert source(tally).closed == 0


def test_a_mark_of_a_source_is_voided_with_the_contests() -> None:
    two = ContestClosed("contest", 2, "sms")
    assert source(given(ContestClosed("contest", 1, "sms"), REOPENED)).closed == 0
    assert source(given(two, REOPENED)).closed == 2
