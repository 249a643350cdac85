"""Which votes a contest admits: kinds of vote and voter, ratings, ballots, and the order of refusals."""

from typing import Any

import pytest

from libs.tally.admission import Selection, judge, remaining
from libs.tally.contest import UNLIMITED, Contest, Limits, RatingScale
from libs.tally.errors import (
    AnonymousVotingDisabled,
    LimitReached,
    LimitScope,
    MobileOnly,
    NotFound,
    ParticipantNotVotable,
    VoteDoesNotFit,
)
from libs.tally.events import Rating
from libs.tally.vote_commands import CastVote
from tests.support.builders.contests import a_ballot, a_contest, a_rating, a_vote


def test_the_participant_must_be_known_and_approved() -> None:
    assert judge(a_contest(), a_vote()) == Selection("plain", (("a", 1),), 1, -1)
    assert isinstance(judge(a_contest(), a_vote("z")), NotFound)
    for status in ("pending", "rejected"):
        assert isinstance(judge(a_contest(participants={"a": status}), a_vote()), ParticipantNotVotable)


@pytest.mark.parametrize("source", ["c-free", "c-paid"])
@pytest.mark.parametrize("free", [True, False])
@pytest.mark.parametrize("paid", [True, False])
def test_anonymous_votes_are_admitted_by_source(source: str, free: bool, paid: bool) -> None:
    contest = a_contest(is_anonymous_voting_enabled=free, is_paid_anonymous=paid)
    refusal = judge(contest, a_vote(anonymous=True, source=source))
    admitted = paid if source == "c-paid" else free
    assert isinstance(refusal, Selection if admitted else AnonymousVotingDisabled)


@pytest.mark.parametrize(
    ("platform", "free"), [("ios", Selection), ("android", Selection), ("web", MobileOnly), (None, MobileOnly)]
)
def test_mobile_only_takes_free_votes_of_the_apps_and_all_paid_ones(platform: str | None, free: type) -> None:
    contest = a_contest(is_mobile_only=True)
    assert isinstance(judge(contest, a_vote(platform=platform)), free)
    assert isinstance(judge(contest, a_vote(platform=platform, source="c-paid")), Selection)


def test_the_participant_comes_before_the_kind_of_voter_and_that_before_the_platform() -> None:
    contest = a_contest(is_mobile_only=True, participants={"a": "approved", "b": "rejected"})
    everything: dict[str, Any] = {"anonymous": True, "platform": "web"}
    assert isinstance(judge(contest, a_vote("z", **everything)), NotFound)
    assert isinstance(judge(contest, a_vote("b", **everything)), ParticipantNotVotable)
    assert isinstance(judge(contest, a_vote("a", **everything)), AnonymousVotingDisabled)


def test_without_a_limit_nothing_is_said_to_remain() -> None:
    assert remaining(UNLIMITED, 5) is None
    assert remaining(5, 5) == 0


@pytest.mark.parametrize(("renews_at", "now", "retry_after_s"), [(None, 5, None), (60_000_000, 59_999_999, 1e-6)])
def test_a_refusal_says_when_trying_again_helps(
    renews_at: int | None, now: int, retry_after_s: float | None
) -> None:
    error = LimitReached(LimitScope.CONTEST, 1, 1, renews_at, now)
    assert error.retry_after_s == retry_after_s
    assert error.data["next_free_vote_at"] == (None if renews_at is None else "1970-01-01T00:01:00.000000Z")


MILLION = 1_000_000
SCALE = RatingScale(highest=5 * MILLION, sub_ratings={"taste": 3 * MILLION})
FRACTIONS = RatingScale(highest=5 * MILLION, fractions=True, sub_ratings={"taste": 3 * MILLION})
POSITIONS = {"1st": 5, "2nd": 3, "honourable": 0}


def a_rated(scale: RatingScale = SCALE, **changes: Any) -> Contest:
    return a_contest(contest_type="rating", rating=scale, **changes)


def an_ordered(**changes: Any) -> Contest:
    return a_contest(contest_type="ordering", positions=POSITIONS, **changes)


def pointer(contest: Contest, command: CastVote) -> str | None:
    """The member that does not fit; None where all do."""
    judged = judge(contest, command)
    if isinstance(judged, Selection):
        return None
    assert isinstance(judged, VoteDoesNotFit), judged
    [problem] = judged.data["errors"]
    assert problem["message"]
    where: str = problem["pointer"]
    return where


def test_an_unknown_position_or_sub_rating_is_told_those_of_the_contest() -> None:
    large = a_contest(contest_type="ordering", positions={str(number): 1 for number in range(100)})
    for contest, command, told in (
        (an_ordered(), a_ballot(("4th", "a")), "no such position; it has 1st, 2nd, honourable"),
        (
            large,
            a_ballot(("x", "a")),
            "no such position; it has 0, 1, 2, 3, 4, 5, 6, 7, 8, 9",
        ),
        (a_rated(), a_rating(sub_ratings=(("look", 0),)), "no such sub-rating; it has taste"),
        (a_rated(RatingScale(5)), a_rating(sub_ratings=(("look", 0),)), "this contest has no sub-rating"),
    ):
        judged = judge(contest, command)
        assert isinstance(judged, VoteDoesNotFit)
        assert judged.data["errors"][0]["message"].endswith(told)


@pytest.mark.parametrize(
    ("command", "where"),
    [
        (a_vote(), None),
        (a_vote(count=1_000_000), None),
        (a_vote(rating=Rating(MILLION)), "/rating"),
        (a_vote(positions=(("1st", "a"),)), "/positions"),
        (a_vote(participant=None), "/participant_key"),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("kind", ["voteonly", "participation"])
def test_a_plain_contest_takes_votes_for_a_participant(kind: str, command: CastVote, where: str | None) -> None:
    assert pointer(a_contest(contest_type=kind), command) == where


@pytest.mark.parametrize(
    ("command", "where"),
    [
        (a_rating(), None),
        (a_rating(value=0), None),
        (a_rating(value=5 * MILLION), None),
        (a_rating(value=5 * MILLION + 1), "/rating/value"),
        (a_rating(value=-1), "/rating/value"),
        (a_rating(value=500_000), "/rating/value"),
        (a_rating(sub_ratings=(("taste", 0),)), None),
        (a_rating(sub_ratings=(("taste", 3 * MILLION),)), None),
        (a_rating(sub_ratings=(("taste", 4 * MILLION),)), "/rating/sub_ratings/taste"),
        (a_rating(sub_ratings=(("taste", -MILLION),)), "/rating/sub_ratings/taste"),
        (a_rating(sub_ratings=(("taste", 2_500_000),)), "/rating/sub_ratings/taste"),
        (a_rating(sub_ratings=(("look", MILLION),)), "/rating/sub_ratings/look"),
        (a_rating(sub_ratings=(("a/b~c", MILLION),)), "/rating/sub_ratings/a~1b~0c"),
        (a_rating(positions=(("1st", "a"),)), "/positions"),
        (a_rating(participant=None), "/participant_key"),  # type: ignore[arg-type]
        (a_rating(count=2), "/count"),
        (a_vote(), "/rating"),
    ],
)
def test_a_rating_contest_takes_ratings_on_its_scale(command: CastVote, where: str | None) -> None:
    assert pointer(a_rated(), command) == where


@pytest.mark.parametrize("value", [500_000, 4_999_999, 1])
def test_fractions_are_taken_where_the_scale_has_them(value: int) -> None:
    assert pointer(a_rated(FRACTIONS), a_rating(value=value, sub_ratings=(("taste", 1),))) is None
    assert pointer(a_rated(FRACTIONS), a_rating(value=5 * MILLION + value)) == "/rating/value"


@pytest.mark.parametrize(
    ("command", "where"),
    [
        (a_ballot(("1st", "a")), None),
        (a_ballot(("1st", "b"), ("2nd", "a")), None),
        (a_ballot(("1st", "b"), ("honourable", "a")), None),
        (a_ballot(("last", "a")), "/positions/last"),
        (a_ballot(("a/b~c", "a")), "/positions/a~1b~0c"),
        (a_ballot(("1st", "a"), ("2nd", "a")), "/positions"),
        (a_ballot(), "/positions"),
        (a_ballot(positions=None), "/positions"),
        (a_ballot(("honourable", "a")), "/positions"),
        (a_ballot(("1st", "a"), participant="a"), "/participant_key"),
        (a_ballot(("1st", "a"), rating=Rating(MILLION)), "/rating"),
        (a_ballot(("1st", "a"), count=2), "/count"),
        (a_vote(), "/participant_key"),
    ],
)
def test_an_ordering_contest_takes_ballots_over_its_positions(command: CastVote, where: str | None) -> None:
    assert pointer(an_ordered(), command) == where


def test_a_rating_comes_to_one_vote_bounded_by_the_scale_and_the_contest() -> None:
    contest = a_rated(free=Limits(9, 7), paid=Limits(9, 3))
    assert judge(contest, a_rating()) == Selection("rating", (("a", 1),), 1, 7)
    assert judge(contest, a_rating(source="c-paid")) == Selection("rating", (("a", 1),), 1, 3)
    several = a_rated(RatingScale(max_per_participant=UNLIMITED))
    assert judge(several, a_rating()) == Selection("rating", (("a", 1),), UNLIMITED, UNLIMITED)


def test_only_what_may_be_replaced_has_a_slot() -> None:
    several = a_rated(RatingScale(max_per_participant=2))
    for selected, slot in (
        (judge(a_rated(), a_rating("b")), "b"),
        (judge(several, a_rating("b")), None),
        (judge(an_ordered(), a_ballot(("1st", "b"))), ""),
        (judge(a_contest(), a_vote("b")), None),
    ):
        assert isinstance(selected, Selection)
        assert selected.slot == slot


def test_a_ballot_comes_to_the_votes_of_its_positions_in_their_order_and_is_one_against_the_contest() -> None:
    ballot = judge(an_ordered(free=Limits(0, 2)), a_ballot(("2nd", "a"), ("1st", "c"), ("honourable", "b")))
    assert ballot == Selection("ballot", (("c", 5), ("a", 3)), UNLIMITED, 2)
    assert isinstance(ballot, Selection)
    assert ballot.weight == 1


@pytest.mark.parametrize("place", ["1st", "2nd", "honourable"])
def test_every_participant_of_a_ballot_must_be_known_and_approved(place: str) -> None:
    other = "2nd" if place == "1st" else "1st"
    contest = an_ordered(participants={"a": "approved", "b": "rejected"})
    assert isinstance(judge(contest, a_ballot((other, "a"), (place, "z"))), NotFound)
    assert isinstance(judge(contest, a_ballot((other, "a"), (place, "b"))), ParticipantNotVotable)


def test_what_does_not_fit_comes_before_who_is_voted_for() -> None:
    assert pointer(a_rated(), a_rating("z", value=9 * MILLION)) == "/rating/value"
    assert isinstance(judge(a_rated(), a_rating("z")), NotFound)
