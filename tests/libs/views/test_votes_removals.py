"""Removal of votes: admission, rejections, and the state afterwards."""

from dataclasses import replace

from libs.contracts.vote_states import VoteName
from libs.tally.contest import Limits
from libs.tally.reservations import (
    Duplicate,
    GateClosed,
    NotCounted,
    NotFolded,
    NotRunning,
    Paid,
    RefusedByCaller,
    RemovalGranted,
    Stale,
    Unknown,
)
from libs.tally.vote_commands import RemoveVote
from libs.tally.voter_ledger import VoteStatus
from tests.libs.views.partition import Partition, removal_event
from tests.support.builders.contests import a_contest, a_vote, pseudonym

ONE = a_contest(free=Limits(1, 1))
REMOVAL = RemoveVote("contest", pseudonym("voter"), "vote")
PAID = a_vote(source="c-paid", vote_id="purchase")


def another(vote_id: str) -> RemoveVote:
    return REMOVAL._replace(vote_id=vote_id)


async def test_a_counted_vote_may_be_removed_and_its_id_stays_used(partition: Partition) -> None:
    vote, contest = a_vote(anonymous=True), replace(ONE, is_anonymous_voting_enabled=True)
    before = await partition.cast(vote, contest)
    granted = await partition.ask_removal(REMOVAL, contest)
    assert isinstance(granted, RemovalGranted)
    assert granted.removed_at >= before.terms.accepted_at
    assert granted == RemovalGranted(
        granted.removed_at, before.incarnation, True, vote.content, "c-free", partition.end - 1
    )
    await partition.fold(removal_event(REMOVAL, granted))
    known = await partition.reserve(vote, contest)
    assert isinstance(known, Duplicate)
    assert known.status is VoteStatus.REMOVED
    assert await partition.ask_removal(REMOVAL, contest) == NotCounted(VoteStatus.REMOVED, known.offset)


async def test_the_checks_come_in_their_order(partition: Partition) -> None:
    """One removal that all speaks against: each check answers once those before it are content."""
    hopeless = a_contest(version=0, start=None, is_vote_removal_allowed=False, reopened=1)
    n = await partition.incarnation()
    assert await partition.ask_removal(REMOVAL, hopeless) == Unknown()
    granted = await partition.grant(a_vote())
    assert await partition.ask_removal(REMOVAL, hopeless) == NotFolded()
    await partition.record(a_vote(), granted)
    await partition.cast(PAID)
    assert await partition.ask_removal(another("purchase"), hopeless) == Paid()
    assert await partition.ask_removal(REMOVAL, hopeless) == Stale(1, n)
    hopeless = replace(hopeless, version=1)
    assert isinstance(await partition.ask_removal(REMOVAL, hopeless), NotRunning)
    hopeless = replace(hopeless, start=1)
    assert await partition.ask_removal(REMOVAL, hopeless) == GateClosed()
    hopeless = replace(hopeless, reopened=0)
    assert isinstance(await partition.ask_removal(REMOVAL, hopeless), RefusedByCaller)
    await partition.shut()
    assert await partition.ask_removal(REMOVAL) == GateClosed()


async def test_a_removal_asked_for_again_is_not_judged_again_and_given_up_with_the_last_of_its_attempts(
    partition: Partition,
) -> None:
    granted = await partition.cast(a_vote(), ONE)
    first = await partition.ask_removal(REMOVAL, ONE)
    over = a_contest(version=7, end=2, is_vote_removal_allowed=False)
    assert await partition.ask_removal(REMOVAL, over) == first
    assert (await partition.views.state(0)).pending == 1
    name = VoteName(REMOVAL.contest, REMOVAL.voter, REMOVAL.vote_id)
    for pending in (1, 0, 0):
        await partition.views.release(0, name, granted.incarnation, removal=True)
        assert (await partition.views.state(0)).pending == pending
    assert await partition.status() is VoteStatus.COUNTED


async def test_a_refund_waits_for_its_vote_while_that_is_on_its_way(partition: Partition) -> None:
    await partition.grant(PAID)
    assert await partition.ask_removal(PAID) == NotFolded()
    await partition.fence()
    assert isinstance(await partition.ask_removal(PAID), RemovalGranted)
