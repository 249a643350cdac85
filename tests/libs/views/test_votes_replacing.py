"""Ratings and ballots: replacement, and its use of the allowance."""

from dataclasses import replace

import msgpack

from libs.tally.contest import Limits, RatingScale
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.reservations import Duplicate, Granted, OverLimit
from libs.tally.vote_commands import RemoveVote
from libs.tally.voter_ledger import VoteStatus
from tests.libs.views.partition import Partition
from tests.support.builders import a_ballot, a_contest, a_rating, pseudonym

MILLION = 1_000_000
SCALE = RatingScale(sub_ratings={"taste": 5 * MILLION, "look": 5 * MILLION})
RATED = a_contest(contest_type="rating", rating=SCALE, free=Limits(9, 2), paid=Limits(9, 2))
ORDERED = a_contest(contest_type="ordering", positions={"1st": 5, "2nd": 3}, free=Limits(0, 1), paid=Limits(0, 1))
COUNTED, REPLACED = VoteStatus.COUNTED, VoteStatus.REPLACED


async def ratings(partition: Partition, participant: str) -> RatingSums | None:
    counts = await partition.views.counts(0, "contest")
    assert counts is not None
    return counts.ratings.get(participant)


async def test_a_new_rating_takes_the_place_of_the_old_one(partition: Partition) -> None:
    await partition.cast(a_rating("a", 2 * MILLION, sub_ratings=(("taste", MILLION),), vote_id="1"), RATED)
    second = a_rating("a", 5 * MILLION, sub_ratings=(("look", 3 * MILLION),), vote_id="2")
    granted = await partition.cast(second, RATED)
    assert (granted.terms.remaining_participant, granted.terms.remaining_contest) == (0, 1)
    assert [await partition.status(name) for name in "12"] == [REPLACED, COUNTED]
    assert await partition.figures("a") == await partition.figures("") == VoteSums(1, 1, 0)
    expected = RatingSums(1, 5 * MILLION, {"taste": (0, 0), "look": (1, 3 * MILLION)}, (0, 0, 0, 0, 0, 1))
    assert await ratings(partition, "a") == await ratings(partition, "") == expected


async def test_sums_of_ratings_are_exact_beyond_the_integers_of_a_double(partition: Partition) -> None:
    most = 2**31 - 1
    base, largest = partition.views._base(0) + ":g1:ratings:contest", 2**53 // MILLION * MILLION
    stored = msgpack.packb([1, largest // MILLION, 0, ["taste", 1, largest // MILLION, 0], [1]])
    await partition.views._valkey.call("HSET", base, "a", stored)
    scale = replace(RATED, rating=RatingScale(highest=most, fractions=True, sub_ratings={"taste": most}))
    await partition.cast(a_rating("a", most, sub_ratings=(("taste", most),)), scale)
    sums = await ratings(partition, "a")
    assert sums is not None
    assert (sums.total, sums.sub_ratings) == (largest + most, {"taste": (2, largest + most)})


async def test_ratings_of_other_participants_and_sources_stand(partition: Partition) -> None:
    await partition.cast(a_rating("a", vote_id="1"), RATED)
    await partition.cast(a_rating("b", vote_id="2"), RATED)
    await partition.cast(a_rating("a", vote_id="3", source="c-paid"), RATED)
    await partition.cast(a_rating("a", vote_id="4", voter="other"), RATED)
    assert {await partition.status(name) for name in "123"} == {COUNTED}
    assert await partition.figures("a", "") == VoteSums(3, 2, 0)
    answer = await partition.reserve(a_rating("c", vote_id="5"), RATED)
    assert isinstance(answer, OverLimit), "the contest's limit spans participants"
    assert isinstance(await partition.reserve(a_rating("b", vote_id="5"), RATED), Granted)


async def test_where_several_are_admitted_none_is_replaced(partition: Partition) -> None:
    contest = replace(RATED, rating=replace(SCALE, max_per_participant=2), free=Limits(1, -1))
    await partition.cast(a_rating("a", vote_id="1"), contest)
    await partition.cast(a_rating("a", vote_id="2"), contest)
    answer = await partition.reserve(a_rating("a", vote_id="3"), contest)
    assert isinstance(answer, OverLimit)
    assert (answer.scope.value, answer.limit, answer.used) == ("participant", 2, 2)
    assert await partition.figures("a") == VoteSums(2, 1, 0)


async def test_a_replacement_needs_no_allowance_however_little_there_is(partition: Partition) -> None:
    await partition.cast(a_rating("a", vote_id="1"), RATED)
    lowered = replace(RATED, version=2, free=Limits(0, 0))
    await partition.views.raise_config(0, "contest", 2)
    assert isinstance(await partition.reserve(a_rating("b", vote_id="2"), lowered), OverLimit)
    await partition.cast(a_rating("a", vote_id="2"), lowered)
    assert await partition.status("2") is COUNTED


async def test_of_pending_ratings_of_a_participant_one_uses_the_allowance(partition: Partition) -> None:
    contest = replace(RATED, free=Limits(9, 1))
    votes = [a_rating("a", vote_id=str(n)) for n in range(3)]
    granted = [await partition.grant(vote, contest) for vote in votes]
    assert [grant.terms.remaining_contest for grant in granted] == [0, 0, 0]
    used = (await partition.views.allowance(0, "contest", pseudonym("voter"))).used
    assert sorted(used) == [("", "c-free", 0, 1), ("a", "c-free", 0, 1)]
    assert isinstance(await partition.reserve(a_rating("b", vote_id="b"), contest), OverLimit)
    for n in (2, 0, 1):  # the later in the log wins
        await partition.record(votes[n], granted[n])
    assert [await partition.status(str(n)) for n in range(3)] == [REPLACED, COUNTED, REPLACED]


async def test_removing_a_replacement_brings_nothing_back(partition: Partition) -> None:
    await partition.cast(a_rating("a", vote_id="1"), RATED)
    await partition.cast(a_rating("a", vote_id="2"), RATED)
    await partition.remove(RemoveVote("contest", pseudonym("voter"), "2"), RATED)
    assert [await partition.status(name) for name in "12"] == [REPLACED, VoteStatus.REMOVED]
    assert await partition.figures("a", "") == VoteSums()
    granted = await partition.cast(a_rating("a", vote_id="3"), RATED)
    assert granted.terms.remaining_contest == 1


async def test_a_ballot_is_one_vote_and_its_positions_are_worth_theirs(partition: Partition) -> None:
    granted = await partition.cast(a_ballot(("1st", "b"), ("2nd", "a")), ORDERED)
    assert (granted.terms.choices, granted.form) == ((("b", 5), ("a", 3)), "ballot")
    assert (granted.terms.remaining_participant, granted.terms.remaining_contest) == (None, 0)
    assert await partition.figures("b") == VoteSums(5, 1, 0)
    assert await partition.figures("a") == VoteSums(3, 1, 0)
    assert await partition.figures("") == VoteSums(8, 1, 0)


async def test_a_new_ballot_takes_the_place_of_the_old_one_as_a_whole(partition: Partition) -> None:
    await partition.cast(a_ballot(("1st", "a"), ("2nd", "b"), vote_id="1"), ORDERED)
    await partition.cast(a_ballot(("1st", "b"), vote_id="2"), ORDERED)
    assert [await partition.status(name) for name in "12"] == [REPLACED, COUNTED]
    assert await partition.figures("a") == VoteSums()
    assert await partition.figures("b") == VoteSums(5, 1, 0)
    paid = await partition.cast(a_ballot(("1st", "a"), vote_id="3", source="c-paid"), ORDERED)
    assert paid.terms.remaining_contest == 0
    assert await partition.status("2") is COUNTED


async def test_a_ballot_that_was_folded_answers_with_all_its_choices(partition: Partition) -> None:
    ballot = a_ballot(("1st", "b"), ("2nd", "c"))
    granted = await partition.cast(ballot, ORDERED)
    for n in range(9):  # beyond those kept inline, too
        known = await partition.reserve(ballot, ORDERED)
        assert isinstance(known, Duplicate)
        assert known.terms.choices == granted.terms.choices
        seen = await partition.views.lookup(0, "contest", ballot.voter, "vote")
        assert seen.terms is not None
        assert seen.terms.choices == granted.terms.choices
        await partition.cast(a_ballot(("1st", "a"), vote_id=f"next {n}"), ORDERED)
