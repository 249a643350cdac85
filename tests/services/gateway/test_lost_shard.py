"""A shard of a Valkey Cluster that is lost: it refuses its own voters, no others, until it is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from libs.contracts.topics import catalogue_topic
from libs.views.valkey.hash_tags import key_base, slot_of
from tests.services.gateway.test_recovering_views import ACCOUNT, Deployment, deployment
from tests.support.clients.voting import Contest
from tests.support.eventually import eventually
from tests.support.servers.valkey_cluster import Cluster, Node, valkey_cluster

__all__ = ["deployment"]
pytestmark = pytest.mark.slow

PARTITIONS = 6
VOTERS = [f"voter{number}" for number in range(24)]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with valkey_cluster() as running:
        yield running


@pytest.fixture
def valkey_address(cluster: Cluster) -> str:
    """Return the cluster's address in place of the run's server."""
    return cluster.url


@pytest.fixture(autouse=True)
def partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.services.gateway.test_recovering_views.PARTITIONS", PARTITIONS)


def a_shard_without_records(cluster: Cluster, namespace: str) -> Node:
    """Return a primary that does not hold the account's records."""
    topic = catalogue_topic(namespace)
    base = key_base(namespace, "catalogue", topic.partition_of(ACCOUNT), topic.partitions)
    holder = cluster.node_of(slot_of(base.encode()))
    return next(node for node in cluster.nodes if node is not holder)


async def refused(contest: Contest, voters: Sequence[str], network: str | None = None) -> set[str]:
    """Return the voters who are asked to try again; all others' votes are accepted.

    With a `network`, each votes from an address of it.
    """
    addresses: list[dict[str, Any]] = [
        {"ip": f"{network}.{number}"} if network else {} for number in range(len(voters))
    ]
    answers = await asyncio.gather(
        *(contest.vote(voter=voter, **address) for voter, address in zip(voters, addresses, strict=True))
    )
    found = dict(zip(voters, (answer.status_code for answer in answers), strict=True))
    assert set(found.values()) <= {201, 503}
    return {voter for voter, status in found.items() if status == 503}


async def refused_twice(contest: Contest) -> set[str]:
    """Return who is refused, once it is the same twice: a busy machine refuses others now and then."""

    async def the_same() -> tuple[set[str], set[str]]:
        first, second = [await refused(contest, VOTERS) for _ in range(2)]
        assert first == second
        return first, second

    return (await eventually(the_same))[0]


async def test_a_lost_shard_refuses_its_own_voters_only_until_it_is_back(
    cluster: Cluster, deployment: Deployment, namespace: str
) -> None:
    async with deployment.projecting():
        await deployment.settled()
        contest = await deployment.api.contest(
            free={"max_participant": 100, "max_contest": 100}, ip_restriction_per_participant=10
        )
        assert await refused_twice(contest) == set()
        lost = a_shard_without_records(cluster, namespace)
        lost.kill()
        first = await refused_twice(contest)
        assert 0 < len(first) < len(VOTERS)

        async def refuses_no_address() -> bool:
            return await refused(contest, VOTERS, network="192.0.2") == first

        await eventually(refuses_no_address)
        ready = await deployment.api.client.get("/readyz")
        assert ready.status_code == 200, ready.text

        lost.start()

        async def is_back() -> bool:
            return not await refused(contest, sorted(first))

        await eventually(is_back)
        counted = len(VOTERS) * 3 - len(first)

        async def all_count() -> bool:
            counts = await deployment.api.client.get(f"{contest.path}/vote_updates/")
            return counts.status_code == 200 and counts.json()["count"] >= counted

        await eventually(all_count)
