"""The answers of `reserve`, and the order of its checks."""

from dataclasses import replace

from libs.tally.contest import Limits
from libs.tally.errors import LimitScope
from libs.tally.reservations import (
    Duplicate,
    GateClosed,
    Granted,
    IdConflict,
    NotRunning,
    OverLimit,
    RefusedByCaller,
    Stale,
    VoteTerms,
)
from libs.tally.voter_ledger import VoteStatus
from tests.libs.views.lua_ledger import request_of
from tests.libs.views.partition import Partition
from tests.support.builders.contests import a_contest, a_vote, content_hash

FUTURE = 2**52


async def test_a_vote_is_granted_with_what_it_was_judged_by(partition: Partition) -> None:
    before = (await partition.views.state(0)).now
    granted = await partition.grant(a_vote(count=2), a_contest(version=7, free=Limits(5, 9)))
    assert before <= granted.terms.accepted_at <= (await partition.views.state(0)).now
    assert granted == Granted(
        joined=False,
        terms=VoteTerms(granted.terms.accepted_at, 3, 7, None, (("a", 2),)),
        incarnation=(await partition.views.state(0)).incarnation,
        epoch=0,
        config=7,
        max_participant=5,
        max_contest=9,
        form="plain",
    )


async def test_the_checks_come_in_their_order(partition: Partition) -> None:
    """One request that all checks speak against: each answers once those before it are content."""
    known = a_vote(vote_id="known")
    await partition.cast(known)
    hopeless = a_contest(version=0, start=None, free=Limits(0, 0))
    n = await partition.incarnation()
    assert await partition.reserve(a_vote(), hopeless, declined=True) == Stale(1, n)
    assert isinstance(await partition.reserve(known, hopeless, declined=True), Duplicate)
    hopeless = replace(hopeless, version=1)
    assert isinstance(await partition.reserve(a_vote(), hopeless, declined=True), NotRunning)
    hopeless = replace(hopeless, start=1)
    assert isinstance(await partition.reserve(a_vote(), hopeless, declined=True), RefusedByCaller)
    for limits, scope in ((Limits(0, 0), LimitScope.PARTICIPANT), (Limits(-1, 0), LimitScope.CONTEST)):
        answer = await partition.reserve(a_vote(), replace(hopeless, free=limits))
        assert isinstance(answer, OverLimit)
        assert answer.scope is scope
    await partition.shut()
    assert await partition.reserve(known, hopeless) == GateClosed()


async def test_the_contest_must_run(partition: Partition) -> None:
    for span in ({"start": None}, {"publish": None}, {"publish": FUTURE}, {"start": FUTURE}, {"end": 2}):
        assert isinstance(await partition.reserve(a_vote(), a_contest(**span)), NotRunning), span
    for span in ({"start": 1}, {"end": FUTURE}):
        assert isinstance(await partition.reserve(a_vote(), a_contest(**span)), Granted), span


async def test_one_call_decides_each_request_after_those_before_it(partition: Partition) -> None:
    contest = a_contest(free=Limits(2, -1))
    await partition.grant(a_vote(vote_id="0", voter="other"), contest)
    requests = [request_of(contest, a_vote(vote_id=vote_id)) for vote_id in ("1", "1", "2", "3")]
    first, again, second, third = await partition.views.reserve(0, requests)
    assert isinstance(first, Granted)
    assert again == first._replace(joined=True)
    assert isinstance(second, Granted)
    assert isinstance(third, OverLimit)


async def test_a_known_id_gets_its_first_answer_even_after_the_end_and_a_conflict_for_other_content(
    partition: Partition,
) -> None:
    contest, other = a_contest(free=Limits(4, 9)), a_vote("b", content=content_hash("b"))
    granted = await partition.grant(a_vote(), contest)
    assert await partition.reserve(other) == IdConflict()
    await partition.record(a_vote(), granted)
    assert await partition.reserve(other) == IdConflict()
    assert await partition.reserve(a_vote(), replace(contest, end=2)) == Duplicate(
        terms=VoteTerms(granted.terms.accepted_at, 3, 8, None, ()),
        offset=partition.end - 1,
        status=VoteStatus.COUNTED,
    )


async def test_who_has_hundreds_of_votes_on_their_way_waits_with_all_that_follow_in_the_call(
    partition: Partition,
) -> None:
    """Alone, the one asked for again would join its pending vote."""
    contest = a_contest(free=Limits(-1, -1))
    await partition.grant(a_vote(vote_id="0"), contest)
    votes = [a_vote(vote_id=str(n)) for n in (*range(1, 257), 0)]
    requests = [request_of(contest, vote) for vote in (*votes, a_vote(voter="other"))]
    *granted, last, again, other = await partition.views.reserve(0, requests)
    assert {type(answer) for answer in (*granted, other)} == {Granted}
    assert (last, again) == (GateClosed(), GateClosed())
