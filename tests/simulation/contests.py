"""Contests of every type as operators write them, and the votes of a few voters."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from libs.tally.time_conversion import timestamp
from libs.tally.vote_commands import CastVote
from tests.simulation.virtual_loop import BEGIN_S
from tests.support.builders.contests import a_ballot, a_rating, a_vote, content_hash, pseudonym

LONG_AGO: Final = "2020-01-01T00:00:00Z"
MILLION: Final = 1_000_000
CONTESTS: Final = ("contest", "other")
VOTERS: Final = (("anna", False), ("bert", True), ("cora", False))
"""By name, and whether anonymous."""
OTHERS: Final = ("dana", "eve", "fay", "gus", "ida", "jan", "kim", "lea", "max", "ned")
"""Voters of whom each votes at most once, in every partition some."""
PROBING: Final = ("pia", "quinn", "rosa", "sam", "tess", "uma", "vera", "walt")
"""Voters who vote once all has settled."""
VOTING: Final = frozenset(pseudonym(name) for name in (*(name for name, _ in VOTERS), *OTHERS, *PROBING))
"""The pseudonyms of all of them; those of buyers are made with the contest's secret."""
PARTICIPANTS: Final = "ab"


def moment(seconds: float) -> str | None:
    """Return a time of the simulation, as the API writes it."""
    return timestamp(round((BEGIN_S + seconds) * MILLION))


def limits(most: int) -> dict[str, int]:
    return {"max_participant": most, "max_contest": most}


def participant_key(contest: str, name: str) -> str:
    return f"{contest}-{name}"


def some_contest(rng: Random, end_s: float | None) -> dict[str, Any]:
    """Return a contest's document: a running one, which ends after `end_s` of the schedule, or never."""
    kind = rng.choice(["voteonly", "voteonly", "rating", "ordering"])
    config = some_rules(rng) | {
        "start": LONG_AGO,
        "is_anonymous_voting_enabled": True,
        "ip_restriction_per_participant": rng.choice([-1, 2, 3]),
        "ordering": {"positions": [{"id": "1st", "votes": 3, "index": 0}, {"id": "2nd", "votes": 1, "index": 1}]},
    }
    if end_s is not None:
        config["end"] = moment(end_s)
    return {"publish": LONG_AGO, "contest_type": kind, "contest_config": config}


def some_rules(rng: Random) -> dict[str, Any]:
    """Return other limits, renewals and rights: what an operator may change while votes come in."""

    def some_limits() -> dict[str, int]:
        return {"max_participant": rng.choice([-1, 1, 1, 2, 3]), "max_contest": rng.choice([-1, 1, 2, 4])}

    return {
        "free": some_limits(),
        "paid": some_limits() | {"is_anonymous": True},
        "renew_free_vote": {"cooldown": rng.choice([0, 0, 1, 2]), "days_between": rng.choice([0, 0, 0, 1])},
        "rating": {
            "max_per_participant": rng.choice([1, 1, 1, 2]),
            "sub_rating_configs": [{"sub_rating_id": "taste"}],
        },
        "is_vote_removal_allowed": rng.random() < 0.9,
    }


def some_vote(
    rng: Random, contest: str, kind: str, ids: int, voters: Sequence[tuple[str, bool]] = VOTERS
) -> CastVote:
    """Return one of the votes of a contest of that kind; few enough for their ids to meet."""
    voter, anonymous = rng.choice(voters)
    source = rng.choice(["c-free", "c-free", "c-free", "c-paid"])
    vote_id = f"id{rng.randrange(ids)}" if source == "c-free" else f"paid{rng.randrange(3)}"
    its: dict[str, Any] = {
        "contest": contest,
        "voter": voter,
        "anonymous": anonymous,
        "vote_id": vote_id,
        "source": source,
    }
    if source == "c-free" and rng.random() < 0.4:
        its["address"] = rng.choice(["home", "office"])
    names: Mapping[str, str] = {name: participant_key(contest, name) for name in PARTICIPANTS}
    match kind:
        case "rating":
            subs = (("taste", rng.randrange(6) * MILLION),) if rng.random() < 0.5 else ()
            vote = a_rating(names[rng.choice("ab")], rng.randrange(1, 5) * MILLION, sub_ratings=subs, **its)
        case "ordering":
            places = rng.choice([("a",), ("a", "b"), ("b", "a")])
            vote = a_ballot(*((at, names[name]) for at, name in zip(("1st", "2nd"), places, strict=False)), **its)
        case _:
            vote = a_vote(names[rng.choice("ab")], rng.choice([1, 1, 1, 2, 3]), **its)
    return vote._replace(content=content_hash(vote.content, vote.source))
