"""Brokers, shards, gateways and projectors of a stack of several are lost under load: no vote is lost or doubled,
and voters of other shards notice nothing."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from libs.deployment.deployment import Deployment
from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from libs.storage.secrets import contest_secret
from services.cli import bootstrap
from services.cli.deployment_discovery import find_addresses
from services.ingestion.vote_forms import voter_pseudonym
from tests.faults.conftest import FIGURES
from tests.faults.voters import Voters, a_limited_contest, settled, voting
from tests.support.clients.stack_keys import development_client
from tests.support.eventually import eventually
from tests.support.run_profile import by_profile
from tests.support.servers.deployments import compare
from tests.support.servers.frozen_process import stopped
from tests.support.servers.stack_members import Members

pytestmark = [pytest.mark.slow, pytest.mark.clustered]

VOTERS = 10
PARTITIONS = 6
LIMIT = 4
"""Few, so that many voters vote in each partition."""
MOST_REFUSED = 0.02
"""Share of votes of other shards that may be answered with 503: on a busy machine a pause is longer than a vote
waits for a reservation."""
PRODUCE_DEADLINE_MS = 30_000
"""Longer than a machine takes to replace a broker that runs other tests meanwhile."""


@pytest.fixture(scope="module")
async def own_stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Supervisor]:
    """Three brokers, three shards with two replicas each, two gateways and two projectors."""
    settings = StackSettings(
        data_dir=Path(tmp_path_factory.mktemp("members")),
        kafka_bootstrap_servers=None,
        valkey_url=None,
        stack="native",
        partitions=PARTITIONS,
        brokers=3,
        valkey_shards=3,
        valkey_replicas=2,
        gateways=2,
        projectors=2,
        kafka_heap_mb=256,
        stack_start_timeout_s=180,
    )
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TALLY_PRODUCE_DEADLINE_MS", str(PRODUCE_DEADLINE_MS))
        async with Supervisor(settings, bootstrap, port=0, any_port=True) as supervisor:
            yield supervisor


@dataclass
class Fault:
    """Names of the lost members, and the slots whose voters may notice it."""

    members: list[str]
    slots: set[int]

    @property
    def has_broker(self) -> bool:
        return any(name.startswith("kafka-") for name in self.members)


Lose = Callable[[Members, Voters], Awaitable[Fault]]


async def lose(members: Members, *names: str, slots: Collection[int] = ()) -> Fault:
    await asyncio.gather(*(members.stack.kill(name, restart=False) for name in names))
    return Fault(list(names), set(slots))


async def slots_beside(members: Members, slot: int) -> set[int]:
    """Return the votes' slots that lie in the same shard."""
    shard = await members.shard(slot)
    return {each for each in map(members.slot, range(PARTITIONS)) if await members.shard(each) == shard}


async def a_broker(members: Members, _: Voters) -> Fault:
    return await lose(members, await members.leader())


async def the_active_controller(members: Members, _: Voters) -> Fault:
    return await lose(members, await members.controller())


async def a_primary(members: Members, _: Voters) -> Fault:
    slots = await slots_beside(members, members.slot())
    return await lose(members, (await members.shard(members.slot()))[0], slots=slots)


async def a_replica(members: Members, _: Voters) -> Fault:
    return await lose(members, (await members.shard(members.slot()))[1])


async def a_leader_and_a_primary(members: Members, _: Voters) -> Fault:
    slots = await slots_beside(members, members.slot())
    return await lose(members, await members.leader(), (await members.shard(members.slot()))[0], slots=slots)


async def a_gateway(members: Members, _: Voters) -> Fault:
    return await lose(members, "gateway-1")


async def a_projector(members: Members, _: Voters) -> Fault:
    return await lose(members, "projector-1")


async def a_replica_a_gateway_and_a_projector(members: Members, _: Voters) -> Fault:
    return await lose(members, (await members.shard(members.slot()))[1], "gateway-1", "projector-1")


async def a_slots_primary(members: Members, _: Voters) -> Fault:
    """Move the slot of a partition to another shard, atomically."""
    slot = members.slot()
    giver = (await members.shard(slot))[0]
    shards = [await members.shard(members.slot(number)) for number in range(PARTITIONS)]
    taker = next(shard[0] for shard in shards if shard[0] != giver)
    target = (await members.ask(taker, "CLUSTER", "MYID")).decode()
    await members.ask(giver, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target)

    async def has_moved() -> bool:
        return (await members.shard(slot))[0] == taker

    await eventually(has_moved)
    return Fault([], {slot})


async def the_last_writes(members: Members, voters: Voters) -> Fault:
    """Stop the replicas of a shard, then kill its primary: the promoted one lacks the writes in between."""
    slots = await slots_beside(members, members.slot())
    primary, *replicas = await members.shard(members.slot())
    with ExitStack() as frozen:
        for name in replicas:
            frozen.enter_context(stopped(members.stack.pids[name]))
        before = voters.total
        await eventually(lambda: voters.total > before + 30)
        return await lose(members, primary, slots=slots)


def gap_s(times: list[float]) -> float:
    """Return the longest time between two of the sorted times."""
    return max(later - earlier for earlier, later in pairwise([0.0, *sorted(times)]))


EACH_KIND = [a_broker, a_replica_a_gateway_and_a_projector, the_last_writes]
"""Each kind of member once."""
ALL = [
    *EACH_KIND,
    the_active_controller,
    a_replica,
    a_primary,
    a_gateway,
    a_projector,
    a_leader_and_a_primary,
    a_slots_primary,
]


@pytest.mark.parametrize("loss", by_profile(short=EACH_KIND, long=ALL))
async def test_votes_outlive_the_loss_of(
    own_stack: Supervisor, loss: Lose, record_property: Callable[[str, object], None]
) -> None:
    async with (
        development_client(own_stack.stack, timeout=60) as client,
        Deployment(find_addresses(own_stack.data_dir)) as deployment,
    ):
        members = Members(own_stack, deployment)
        contest = await a_limited_contest(client, LIMIT)
        voters, fences = Voters(contest), await members.fences()
        down = own_stack.pids
        try:
            async with voting(voters, VOTERS):
                await eventually(lambda: voters.total > 50)
                secret = await contest_secret(deployment.store, contest.key)

                @cache
                def partition_of(voter: str) -> int:
                    return deployment.votes.topic_from(0).partition_of(voter_pseudonym(secret, voter, None))

                def accepted_in(partition: int) -> list[float]:
                    """Return the times since the loss began."""
                    times = [
                        when - began for when, voter in voters.acceptances if partition_of(voter) == partition
                    ]
                    return [when for when in times if when >= 0]

                began = time.monotonic()
                fault = await loss(members, voters)
                lost_s = time.monotonic() - began
                await eventually(
                    lambda: all(accepted_in(partition)[-1:] > [lost_s] for partition in range(PARTITIONS)),
                    every_s=0.2,
                )
                before = voters.total
                await eventually(lambda: voters.total > before + 50)
        finally:
            for name in {*down} - {*own_stack.pids}:
                await own_stack.restart(name)
        await settled(client, contest, voters)
        report = await compare(find_addresses(own_stack.data_dir), contest.key)
        assert report.equal, report.differences
        refused = [(members.slot(partition_of(voter)), code) for _, voter, code in voters.unavailable]
        others = [code for slot, code in refused if slot not in fault.slots]
        raised = [new > old for old, new in zip(fences, await members.fences(), strict=True)]
        gaps: dict[bool, list[float]] = {True: [], False: []}
        for partition in range(PARTITIONS):
            gaps[members.slot(partition) in fault.slots].append(gap_s(accepted_in(partition)))
        healed_s, others_s = max(gaps[True], default=0.0), max(gaps[False], default=0.0)
        row = {
            "fault": loss.__name__.replace("_", " "),
            "lost shard back, s": f"{healed_s:.1f}" if gaps[True] else "-",
            "others' longest wait, s": f"{others_s:.1f}",
            "503 of the lost shard": len(refused) - len(others),
            "503 of others": f"{len(others)} of {len(voters.acceptances)}",
            "fences": sum(raised),
        }
        record_property(FIGURES, row)
        most = 0 if fault.has_broker else MOST_REFUSED * len(voters.acceptances)
        assert len(others) <= most, f"voters of other shards: {Counter(others)}"
        if fault.has_broker and not fault.slots:
            assert not any(raised), "a lost broker makes no fence"
