"""Contests of every type, and the requests of two voters."""

from dataclasses import replace
from random import Random
from typing import Any, Final

from libs.tally.contest import Contest, Limits, ParticipantStatus, RatingScale, Renewal
from libs.tally.vote_commands import CastVote, RemoveVote
from tests.libs.views.simulation.client_requests import Casting, Errand, Removing
from tests.support.builders import a_ballot, a_contest, a_rating, a_vote, content_hash

MILLION: Final = 1_000_000
VOTERS: Final = ("anna", False), ("bert", True)
"""By name, and whether anonymous."""


def some_contest(rng: Random) -> Contest:
    contest = a_contest(
        contest_type=rng.choice(["voteonly", "rating", "rating", "ordering"]),
        is_anonymous_voting_enabled=True,
        is_paid_anonymous=True,
        rating=RatingScale(sub_ratings={"taste": 5 * MILLION}),
        positions={"1st": 3, "2nd": 1},
        ip_restriction_per_participant=rng.choice([-1, 2]),
    )
    contest = changed(rng, contest)
    if rng.random() < 0.3:
        # few ways lead to what a replacement and a removal can do to each other: make them likely
        limits, renewal = Limits(1, rng.choice([1, 2])), Renewal(cooldown_us=20_000)
        contest = replace(contest, contest_type="rating", free=limits, renewal=renewal, start=1)
    return contest


def changed(rng: Random, contest: Contest) -> Contest:
    """Other limits, participants, times, renewals: what an operator may change while votes come in."""

    def limits() -> Limits:
        return Limits(rng.choice([-1, 0, 1, 2, 3, 5]), rng.choice([-1, 1, 1, 2, 4]))

    status: dict[str, ParticipantStatus] = dict.fromkeys("ab", "approved")
    if rng.random() < 0.15:
        status["b"] = "rejected"
    cooldown_us = rng.choice([0, 0, 20, 40]) * 1000
    return replace(
        contest,
        free=limits(),
        paid=limits(),
        participants=status,
        start=None if rng.random() < 0.05 else 1,
        renewal=Renewal(cooldown_us, days_between=rng.choice([0, 0, 0, 1])),
        rating=replace(contest.rating, max_per_participant=rng.choice([1, 1, 1, 2])),
        is_vote_removal_allowed=rng.random() < 0.9,
    )


def some_errands(rng: Random, contest: Contest) -> list[Errand]:
    """Requests of a voter or two; some come twice, some with other content under the same id."""
    voters, ids, removals = VOTERS[: rng.randint(1, 2)], rng.choice([3, 8]), rng.choice([0.2, 0.8])
    errands: list[Errand] = []
    for _ in range(rng.randint(4, 14)):
        vote = _some_vote(rng, contest, *rng.choice(voters), ids)
        errands += [Casting(vote)] * rng.choice([1, 1, 1, 2, 3])
        if rng.random() < removals:
            refund = vote.source == "c-paid" and rng.random() < 0.9
            removing = Removing(vote if refund else RemoveVote(contest.key, vote.voter, vote.vote_id))
            errands += [removing] * rng.choice([1, 1, 2])
    return errands


def _some_vote(rng: Random, contest: Contest, voter: str, anonymous: bool, ids: int) -> CastVote:
    source = rng.choice(["c-free", "c-free", "c-free", "c-paid"])
    # the ids of purchases are none that a voter could choose
    vote_id = f"id{rng.randrange(ids)}" if source == "c-free" else f"purchase{rng.randrange(3)}"
    rest: dict[str, Any] = {"voter": voter, "anonymous": anonymous, "vote_id": vote_id, "source": source}
    if source == "c-free" and rng.random() < 0.3:
        rest["address"] = "home"
    match contest.contest_type:
        case "rating":
            subs = (("taste", rng.randrange(6) * MILLION),) if rng.random() < 0.5 else ()
            vote = a_rating(rng.choice("ab"), rng.randrange(3) * MILLION, sub_ratings=subs, **rest)
        case "ordering":
            places = rng.choice([(("1st", "a"),), (("1st", "a"), ("2nd", "b")), (("1st", "b"), ("2nd", "a"))])
            vote = a_ballot(*places, **rest)
        case _:
            vote = a_vote(rng.choice("ab"), rng.choice([1, 1, 1, 2, 3]), **rest)
    # the source is part of a request's content
    return replace(vote, content=content_hash(vote.content, vote.source))
