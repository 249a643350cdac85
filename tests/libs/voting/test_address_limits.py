"""Votes with an address limit: one call uses the limit and reserves the vote, on a server that is no cluster."""

import asyncio

import pytest

from libs.tally.contest import Limits
from libs.tally.errors import LimitReached, ViewsUnavailable
from libs.voting.protocol.shared_steps import Accepted, Outcome
from libs.voting.service import VotingService
from tests.libs.views.partition import Partition
from tests.libs.voting.conftest import Counted, Serve
from tests.support.builders.contests import a_ballot, a_contest, a_vote
from tests.support.eventually import eventually

LIMIT = 2


@pytest.fixture
def service(serve: Serve) -> VotingService:
    return serve(a_contest(ip_restriction_per_participant=LIMIT))


async def cast(service: VotingService, voter: str, vote_id: str = "") -> Outcome:
    [outcome] = await service.cast("account", [a_vote(voter=voter, vote_id=vote_id or voter, address="address")])
    return outcome


async def test_the_limit_is_used_by_the_call_that_reserves_and_declares_the_counter(
    service: VotingService, valkey: Counted
) -> None:
    """So that a cluster refuses it: the response then says that it is one."""
    await cast(service, "first")
    valkey.calls.clear()
    assert isinstance(await cast(service, "second"), Accepted)
    assert valkey.calls == {"votes_reserve": 1, "votes_confirm": 1}
    partition, counter = valkey.keys["votes_reserve"]
    assert counter.endswith(":{a:contest:a:address}")
    assert partition != counter


async def test_votes_of_one_call_share_the_limit(service: VotingService) -> None:
    votes = [a_vote(voter=f"v{number}", vote_id=f"id{number}", address="address") for number in range(2 * LIMIT)]
    outcomes = await service.cast("account", votes)
    assert [type(outcome) for outcome in outcomes] == [Accepted] * LIMIT + [LimitReached] * LIMIT
    assert {outcome.code for outcome in outcomes if isinstance(outcome, LimitReached)} == {"ip_limit_reached"}


async def test_votes_of_several_voters_with_the_same_id_use_the_limit_each(service: VotingService) -> None:
    """A vote id is unique per voter only."""
    outcomes = [await cast(service, f"v{number}", vote_id="same") for number in range(LIMIT + 1)]
    assert [type(outcome) for outcome in outcomes] == [Accepted] * LIMIT + [LimitReached]


async def test_nothing_is_used_while_the_gate_is_closed(
    partition: Partition, service: VotingService, valkey: Counted
) -> None:
    fence = await partition.shut()
    casting = [asyncio.ensure_future(cast(service, f"v{number}")) for number in range(2 * LIMIT)]
    await eventually(lambda: valkey.calls["votes_lookup"] > 1)
    await partition.fold(fence)
    outcomes = await asyncio.gather(*casting)
    assert sum(isinstance(outcome, Accepted) for outcome in outcomes) == LIMIT


async def test_a_refused_vote_gives_its_use_back_in_the_same_call(serve: Serve, valkey: Counted) -> None:
    """So it holds nothing back if its caller has timed out, and takes no call more."""
    service = serve(a_contest(free=Limits(1, -1), ip_restriction_per_participant=LIMIT))
    await cast(service, "voter")
    valkey.calls.clear()
    for number in range(LIMIT):
        refused = await cast(service, "voter", vote_id=f"again {number}")
        assert isinstance(refused, LimitReached)
        assert refused.code == "participant_limit_reached"
    assert valkey.calls == {"votes_reserve": LIMIT}
    assert isinstance(await cast(service, "other"), Accepted)


async def test_a_vote_that_is_not_reserved_gives_its_uses_back(
    partition: Partition, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of several participants were taken before, by a call of their own."""
    ordered = {"contest_type": "ordering", "positions": {"1st": 3, "2nd": 1}, "free": Limits(-1, -1)}
    service = serve(a_contest(**ordered, ip_restriction_per_participant=LIMIT))

    async def away(requests: object) -> None:
        raise ViewsUnavailable("away", retry_after_s=1)

    async def cast_ballot(voter: str) -> Outcome:
        ballot = a_ballot(("1st", "b"), ("2nd", "c"), voter=voter, vote_id=voter, address="address")
        [outcome] = await service.cast("account", [ballot])
        return outcome

    with monkeypatch.context() as patched:
        patched.setattr(partition.views, "reserve_together", away)
        for number in range(LIMIT):
            assert isinstance(await cast_ballot(f"refused {number}"), ViewsUnavailable)
    assert isinstance(await cast_ballot("other"), Accepted)
