"""Votes with an address limit: one call uses the limit and reserves the vote, on a server that is no cluster."""

import asyncio

import pytest

from libs.tally.errors import LimitReached
from libs.voting.protocol.shared_steps import Accepted, Outcome
from libs.voting.service import VotingService
from tests.libs.views.partition import Partition
from tests.libs.voting.conftest import Counted, Log, service_of
from tests.support.builders import a_contest, a_vote
from tests.support.eventually import eventually

LIMIT = 2


@pytest.fixture
def service(partition: Partition, valkey: Counted, namespace: str, log: Log) -> VotingService:
    async def read(partition: int, offset: int) -> None:
        return None

    contest = a_contest(ip_restriction_per_participant=LIMIT)
    return service_of(partition, valkey, namespace, log, contest, read)


async def cast(
    service: VotingService, voter: str, participant: str = "a", address: str = "address", vote_id: str = ""
) -> Outcome:
    [outcome] = await service.cast(
        "account", [a_vote(participant, voter=voter, vote_id=vote_id or voter, address=address)]
    )
    return outcome


async def test_the_limit_is_used_by_the_call_that_reserves(service: VotingService, valkey: Counted) -> None:
    await cast(service, "first")
    valkey.calls.clear()
    assert isinstance(await cast(service, "second"), Accepted)
    assert valkey.calls == {"votes_reserve": 1, "votes_confirm": 1}


async def test_the_call_declares_the_counter_so_that_a_cluster_refuses_it(
    service: VotingService, valkey: Counted
) -> None:
    """The response then says that it is one."""
    for voter in ("first", "second"):
        await cast(service, voter)
    partition, counter = valkey.keys["votes_reserve"]
    assert counter.endswith(":{a:contest:a:address}")
    assert partition != counter


async def test_votes_of_one_call_share_the_limit(service: VotingService) -> None:
    votes = [a_vote(voter=f"v{number}", vote_id=f"id{number}", address="address") for number in range(2 * LIMIT)]
    outcomes = await service.cast("account", votes)
    assert [isinstance(outcome, Accepted) for outcome in outcomes] == [True] * LIMIT + [False] * LIMIT
    assert {outcome.code for outcome in outcomes[LIMIT:] if isinstance(outcome, LimitReached)} == {
        "ip_limit_reached"
    }


async def test_votes_of_several_voters_with_the_same_id_use_the_limit_each(service: VotingService) -> None:
    """A vote id is unique per voter only."""
    outcomes = [await cast(service, f"v{number}", vote_id="same") for number in range(LIMIT + 1)]
    assert [isinstance(outcome, Accepted) for outcome in outcomes] == [True] * LIMIT + [False]


async def test_nothing_is_used_while_the_gate_is_closed(
    partition: Partition, service: VotingService, valkey: Counted
) -> None:
    fence = await partition.views.shut(0, (await partition.views.state(0)).incarnation)
    assert fence is not None
    casting = [asyncio.ensure_future(cast(service, f"v{number}")) for number in range(2 * LIMIT)]
    await eventually(lambda: valkey.calls["votes_lookup"] > 1)
    await partition.fold(fence)
    outcomes = await asyncio.gather(*casting)
    assert sum(isinstance(outcome, Accepted) for outcome in outcomes) == LIMIT
