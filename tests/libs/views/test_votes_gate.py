"""The gate of a partition: release, confirm, closing, and configurations put in force."""

from dataclasses import replace

from libs.contracts.vote_states import VoteName
from libs.tally.contest import Limits
from libs.tally.events import Fence, LogCreated
from libs.tally.reservations import Granted, OverLimit, Stale
from tests.libs.views.lua_ledger import request_of
from tests.libs.views.partition import Partition
from tests.support.builders.contests import a_contest, a_vote

ONE = a_contest(free=Limits(1, -1))


async def write(partition: Partition, field: str, value: str) -> None:
    """Change a field of the stored gate."""
    await partition.views._valkey.call("HSET", f"{partition.views._base(0)}:gate", field, value)


async def release(partition: Partition, n: int, vote_id: str = "vote") -> None:
    vote = a_vote(vote_id=vote_id)
    await partition.views.release(0, VoteName(vote.contest, vote.voter, vote.vote_id), n)


async def test_a_reservation_goes_with_the_last_of_its_attempts(partition: Partition) -> None:
    n = await partition.incarnation()
    for _ in range(3):
        await partition.grant(a_vote(), ONE)
    await release(partition, n)
    await release(partition, n)
    assert isinstance(await partition.reserve(a_vote(vote_id="another"), ONE), OverLimit)
    await release(partition, n)
    assert isinstance(await partition.reserve(a_vote(vote_id="another"), ONE), Granted)


async def test_a_release_of_what_was_folded_changes_nothing(partition: Partition) -> None:
    n = (await partition.cast(a_vote(), ONE)).incarnation
    await release(partition, n)
    assert isinstance(await partition.reserve(a_vote(vote_id="another"), ONE), OverLimit)


async def test_a_fence_asked_for_in_a_former_run_shuts_the_gate(partition: Partition) -> None:
    fence = await partition.shut()
    await write(partition, "asked_run", "former")
    await partition.fold(replace(fence, run=None))
    assert not (await partition.views.state(0)).open


async def test_a_server_that_comes_back_into_its_role_is_another_run(partition: Partition) -> None:
    """A failover and back leaves the run id as it was; the replication id changes with every promotion."""
    valkey, gate = partition.views._valkey, f"{partition.views._base(0)}:gate"
    lines = (await valkey.call("INFO", "server", "replication")).decode().splitlines()
    info = dict(line.split(":", 1) for line in lines if ":" in line)
    assert await valkey.call("HGET", gate, "run") == f"{info['run_id']}.{info['master_replid']}".encode()
    await write(partition, "run", f"{info['run_id']}.{'0' * 40}")
    assert not (await partition.views.state(0)).open


async def test_shutting_asks_for_the_same_fence_until_one_is_folded(partition: Partition) -> None:
    n = await partition.incarnation()
    first = await partition.shut()
    assert (first.after, first.incarnation > n) == (n, True)
    assert await partition.views.shut(0, 12345) == first
    await partition.fold(first)
    assert await partition.views.shut(0, n) is None
    assert (await partition.views.state(0)).open
    assert await partition.views.shut(0, first.incarnation) != first


async def test_a_fence_that_nobody_asked_for_here_shuts_the_gate(partition: Partition) -> None:
    n = await partition.incarnation()
    await partition.fold(Fence(n + 10**9))
    assert not (await partition.views.state(0)).open
    assert await partition.fence() > n + 10**9


async def test_a_repeated_or_older_fence_leaves_the_gate_open(partition: Partition) -> None:
    n = await partition.incarnation()
    granted = await partition.grant(a_vote())
    await partition.fold(Fence(n), Fence(n - 1), LogCreated("again"))
    assert await partition.views.confirm(0, granted.incarnation)
    assert (await partition.views.state(0)).pending == 1


async def test_a_version_is_raised_never_lowered(partition: Partition) -> None:
    n = await partition.incarnation()
    for version in (5, 3):
        await partition.views.put_in_force(0, a_contest(version=version), n)
        await partition.views.raise_config(0, "contest", version)
    assert await partition.reserve(a_vote(), a_contest(version=3)) == Stale(5, n)
    await partition.views.raise_config(0, "contest", 6)
    assert await partition.reserve(a_vote(), a_contest(version=5)) == Stale(6, n)
    assert isinstance(await partition.reserve(a_vote(), a_contest(version=6)), Granted)


async def test_a_workers_word_holds_under_the_incarnation_that_it_loaded_under(partition: Partition) -> None:
    old = await partition.incarnation()
    new = await partition.fence()
    await partition.views.put_in_force(0, a_contest(version=1), old)
    [answer] = await partition.views.reserve(0, [request_of(a_contest(), a_vote())])
    assert answer == Stale(None, new)
