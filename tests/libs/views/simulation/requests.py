"""Contests of every type, and what two voters ask of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Final

from libs.tally.commands import CastVote, RemoveVote
from libs.tally.contest import Contest, Limits, RatingScale, Renewal
from tests.libs.views.simulation.errands import Casting, Errand, Removing
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
    )
    return changed(rng, contest)


def changed(rng: Random, contest: Contest) -> Contest:
    """Other limits, participants, times, renewals: what an operator may change while votes come in."""

    def limits() -> Limits:
        return Limits(rng.choice([-1, 0, 1, 2, 3, 5]), rng.choice([-1, -1, 1, 2, 4]))

    status = dict.fromkeys("ab", "approved")
    if rng.random() < 0.15:
        status["b"] = "rejected"
    cooldown_us = rng.choice([0, 0, 20, 60]) * 1000
    return replace(
        contest,
        free=limits(),
        paid=limits(),
        participants=status,
        start=None if rng.random() < 0.05 else 1,
        renewal=Renewal(cooldown_us, days_between=rng.choice([0, 0, 0, 1])),
        rating=replace(contest.rating, max_per_participant=rng.choice([1, 1, 2])),
        is_vote_removal_allowed=rng.random() < 0.9,
    )


def some_errands(rng: Random, contest: Contest) -> list[Errand]:
    """Requests of two voters; some come twice, some with other content under the same id."""
    errands: list[Errand] = []
    for _ in range(rng.randint(4, 14)):
        vote = _some_vote(rng, contest)
        errands += [Casting(vote)] * rng.choice([1, 1, 1, 2, 3])
        if rng.random() < 0.35:
            refund = vote.source == "c-paid" and rng.random() < 0.9
            removing = Removing(vote if refund else RemoveVote(contest.key, vote.voter, vote.vote_id))
            errands += [removing] * rng.choice([1, 1, 2])
    return errands


def _some_vote(rng: Random, contest: Contest) -> CastVote:
    voter, anonymous = rng.choice(VOTERS)
    source = rng.choice(["c-free", "c-free", "c-paid"])
    # the ids of purchases are none that a voter could choose
    vote_id = f"id{rng.randrange(8)}" if source == "c-free" else f"purchase{rng.randrange(3)}"
    rest: dict[str, Any] = {"voter": voter, "anonymous": anonymous, "vote_id": vote_id, "source": source}
    match contest.contest_type:
        case "rating":
            subs = (("taste", rng.randrange(6) * MILLION),) if rng.random() < 0.5 else ()
            vote = a_rating(rng.choice("ab"), rng.randrange(6) * MILLION, sub_ratings=subs, **rest)
        case "ordering":
            places = rng.choice([(("1st", "a"),), (("1st", "a"), ("2nd", "b")), (("1st", "b"), ("2nd", "a"))])
            vote = a_ballot(*places, **rest)
        case _:
            vote = a_vote(rng.choice("ab"), rng.choice([1, 1, 1, 2, 3]), **rest)
    # the source is part of a request's content
    return replace(vote, content=content_hash(vote.content, vote.source))
