"""Ratings and ballots: replacement, and its use of the allowance."""

from dataclasses import replace

import msgpack

from libs.tally.contest import Limits, RatingScale
from libs.tally.reservations import Duplicate
from tests.libs.views.partition import Partition
from tests.support.builders.contests import a_ballot, a_contest, a_rating

MILLION = 1_000_000
SCALE = RatingScale(sub_ratings={"taste": 5 * MILLION, "look": 5 * MILLION})
RATED = a_contest(contest_type="rating", rating=SCALE, free=Limits(9, 2), paid=Limits(9, 2))
ORDERED = a_contest(contest_type="ordering", positions={"1st": 5, "2nd": 3}, free=Limits(0, 1), paid=Limits(0, 1))


async def test_sums_of_ratings_are_exact_beyond_the_integers_of_a_double(partition: Partition) -> None:
    most = 2**31 - 1
    base, largest = partition.views._base(0) + ":g1:ratings:contest", 2**53 // MILLION * MILLION
    stored = msgpack.packb([1, largest // MILLION, 0, ["taste", 1, largest // MILLION, 0], [1]])
    await partition.views._valkey.call("HSET", base, "a", stored)
    scale = replace(RATED, rating=RatingScale(highest=most, fractions=True, sub_ratings={"taste": most}))
    await partition.cast(a_rating("a", most, sub_ratings=(("taste", most),)), scale)
    sums = (await partition.counts()).ratings["a"]
    assert (sums.total, sums.sub_ratings) == (largest + most, {"taste": (2, largest + most)})


async def test_a_ballot_that_was_folded_answers_with_all_its_choices(partition: Partition) -> None:
    ballot = a_ballot(("1st", "b"), ("2nd", "c"))
    granted = await partition.cast(ballot, ORDERED)
    for n in range(9):  # beyond those kept inline, too
        known = await partition.reserve(ballot, ORDERED)
        seen = await partition.views.lookup(0, "contest", ballot.voter, "vote")
        assert isinstance(known, Duplicate)
        assert seen.terms is not None
        assert known.terms.choices == seen.terms.choices == granted.terms.choices
        await partition.cast(a_ballot(("1st", "a"), vote_id=f"next {n}"), ORDERED)
