"""Limits bound one voter's votes; a command that would exceed one is rejected as a whole."""

from itertools import product

import pytest

from libs.tally.admission import Selection, judge, remaining
from libs.tally.contest import UNLIMITED, Contest, Limits, RatingScale
from libs.tally.errors import ContestNotRunning, LimitReached, LimitScope, NotFound
from libs.tally.vote_commands import CastVote
from tests.support.builders import NOW, a_ballot, a_contest, a_rating, a_vote
from tests.support.reference_admission import decide, over_limit


def selected(contest: Contest, command: CastVote) -> Selection:
    selection = judge(contest, command)
    assert isinstance(selection, Selection)
    return selection


def refusal(limits: Limits, used_participant: int, used_contest: int, count: int) -> LimitReached | None:
    def used(participant: str) -> int:
        return used_participant if participant else used_contest

    error = over_limit(selected(a_contest(free=limits), a_vote(count=count)), used)
    assert error is None or isinstance(error, LimitReached)
    return error


@pytest.mark.parametrize(
    ("limits", "used", "count", "scope"),
    [
        (Limits(1, -1), (0, 0), 1, None),
        (Limits(1, -1), (1, 1), 1, LimitScope.PARTICIPANT),
        (Limits(3, -1), (0, 0), 4, LimitScope.PARTICIPANT),
        (Limits(3, -1), (2, 2), 2, LimitScope.PARTICIPANT),
        (Limits(-1, 3), (0, 2), 1, None),
        (Limits(-1, 3), (0, 3), 1, LimitScope.CONTEST),
        (Limits(1, 1), (1, 1), 1, LimitScope.PARTICIPANT),
        (Limits(0, -1), (0, 0), 1, LimitScope.PARTICIPANT),
        (Limits(-1, 0), (0, 0), 1, LimitScope.CONTEST),
        (Limits(-1, -1), (10**9, 10**9), 1_000_000, None),
        (Limits(2, 9), (5, 5), 1, LimitScope.PARTICIPANT),
    ],
)
def test_a_limit(limits: Limits, used: tuple[int, int], count: int, scope: LimitScope | None) -> None:
    error = refusal(limits, *used, count)
    assert (error and error.scope) == scope


def test_a_refusal_says_limit_and_used_and_its_code() -> None:
    error = refusal(Limits(3, -1), 2, 2, 2)
    assert error is not None
    assert (error.code, error.data["limit"], error.data["used"]) == ("participant_limit_reached", 3, 2)


def test_free_and_paid_votes_have_limits_of_their_own() -> None:
    contest = a_contest(free=Limits(1, 1), paid=Limits(0, -1))
    assert over_limit(selected(contest, a_vote()), lambda _: 0) is None
    assert over_limit(selected(contest, a_vote(source="c-paid")), lambda _: 0) is not None


def test_without_a_limit_nothing_is_said_to_remain() -> None:
    assert remaining(UNLIMITED, 5) is None
    assert remaining(5, 5) == 0


@pytest.mark.parametrize("max_participant", [-1, 0, 1, 3])
@pytest.mark.parametrize("max_contest", [-1, 0, 1, 3])
def test_an_admitted_vote_keeps_every_sum_within_its_limit_and_a_refused_one_would_not(
    max_participant: int, max_contest: int
) -> None:
    for used_p, more, count in product(range(4), range(3), range(1, 4)):
        error = refusal(Limits(max_participant, max_contest), used_p, used_p + more, count)
        fits_p = max_participant == UNLIMITED or used_p + count <= max_participant
        fits_c = max_contest == UNLIMITED or used_p + more + count <= max_contest
        assert (error is None) == (fits_p and fits_c)
        assert error is None or (error.scope is LimitScope.CONTEST) == fits_p


def test_decide_asks_for_the_time_first_then_the_configuration_then_the_limits() -> None:
    spent, over = a_contest(free=Limits(0, 0)), a_contest(free=Limits(0, 0), end=NOW)
    assert isinstance(decide(over, a_vote("z"), lambda _: 0, NOW), ContestNotRunning)
    assert isinstance(decide(spent, a_vote("z"), lambda _: 0, NOW), NotFound)
    assert isinstance(decide(spent, a_vote("a"), lambda _: 0, NOW), LimitReached)
    assert decide(a_contest(), a_vote("a"), lambda _: 0, NOW) == Selection("plain", (("a", 1),), 1, -1)


def test_what_replaces_a_vote_that_is_held_needs_no_allowance() -> None:
    rated = a_contest(contest_type="rating", free=Limits(0, 0))
    assert isinstance(decide(rated, a_rating("a"), lambda _: 0, NOW), LimitReached)
    assert isinstance(decide(rated, a_rating("a"), lambda _: 5, NOW, lambda slot: slot == "a"), Selection)
    assert isinstance(decide(rated, a_rating("b"), lambda _: 0, NOW, lambda slot: slot == "a"), LimitReached)
    ordered = a_contest(contest_type="ordering", positions={"1st": 5}, free=Limits(0, 0))
    assert isinstance(
        decide(ordered, a_ballot(("1st", "a")), lambda _: 5, NOW, lambda slot: slot == ""), Selection
    )


def test_a_plain_vote_and_a_rating_among_several_replace_nothing() -> None:
    several = a_contest(contest_type="rating", rating=RatingScale(max_per_participant=2))
    assert isinstance(decide(several, a_rating("a"), lambda _: 2, NOW, lambda _: True), LimitReached)
    assert isinstance(decide(a_contest(), a_vote("a"), lambda _: 1, NOW, lambda _: True), LimitReached)


@pytest.mark.parametrize(("renews_at", "now", "retry_after_s"), [(None, 5, None), (60_000_000, 59_999_999, 1e-6)])
def test_a_refusal_says_when_trying_again_helps(
    renews_at: int | None, now: int, retry_after_s: float | None
) -> None:
    error = LimitReached(LimitScope.CONTEST, 1, 1, renews_at, now)
    assert error.retry_after_s == retry_after_s
    assert error.data["next_free_vote_at"] == (None if renews_at is None else "1970-01-01T00:01:00.000000Z")
