"""Scenarios of servers: what they lose, their clocks, their fences, and a fold that lags."""

from tests.simulation.contests import PARTICIPANTS
from tests.simulation.stage import Stage


async def lose_a_vote(s: Stage) -> None:
    """A replaced server has lost a vote that is answered, and the voter votes again at once."""
    rng = s.rng
    await s.warm(s.first, s.second)
    data = s.server.backend.snapshot()
    await s.cast(s.vote("first"), None, 3)
    if rng.random() < 0.5:
        s.freeze_at("votes_apply", s.fencer, rng.uniform(0.5, 2.0))
    s.fail(data)
    for number in range(6):
        s.cast(s.vote(f"vote{number}", rng.choice(PARTICIPANTS)), None)
        for _ in range(rng.choice([0, 0, 20])):
            await s.append(s.restoring(s.vote()))
            await s.pause(0.001, 0.02)
        await s.pause(0.0, 0.4)


async def lose_records(s: Stage) -> None:
    """All replicas of the log lose power before what they acknowledged is on their disks; clients vote again."""
    rng = s.rng
    data = s.server.backend.snapshot() if rng.random() < 0.3 else None
    await s.warm(s.first)
    for number in range(rng.randint(2, 6)):
        s.cast(s.vote(f"vote{number}", rng.choice(PARTICIPANTS)), None, 2)
        await s.pause(0.0, 0.3)
    # some vote while the view is empty
    noticed = s.freeze_at("votes_begin_again", s.fencer, rng.choice([0.0, rng.uniform(0.3, 2.0)]))
    await s.cut_power(rng.randint(1, 8), data)
    for number in range(10):
        if number == 4:
            await noticed
        s.cast(s.vote(f"vote{number}", rng.choice(PARTICIPANTS)), None, 3)
        await s.pause(0.0, 0.6 if number < 4 else 0.2)


async def read_after_a_loss(s: Stage) -> None:
    """A replaced server has lost a record's change that is answered, and another gateway reads the record."""
    data = s.server.backend.snapshot()
    await s.limit(5, s.first)
    s.fail(data)
    for _ in range(8):
        s.read(s.rng.choice(s.world.gateways))
        await s.pause(0.05, 0.4)


async def step_a_clock(s: Stage) -> None:
    """The clock of the partition's server steps back between votes."""
    for number in range(4):
        await s.cast(s.vote(f"vote{number}"), None, 2)
        if s.rng.random() < 0.5:
            s.step_clock(-s.rng.uniform(0.3, 8.0))


async def correct_a_clock(s: Stage) -> None:
    """The clock of the partition's server was ahead while it voted, and is corrected."""
    ahead = s.rng.uniform(11.0, 60.0)
    s.step_clock(ahead)
    await s.cast(s.vote("early"), None, 3)
    s.step_clock(-ahead)
    for number in range(3):
        await s.pause(0.1, 1.0)
        s.cast(s.vote(f"vote{number}"), None, 2)


async def forget_a_fence(s: Stage) -> None:
    """A fence is asked for of a server whose successor does not know it, and appended after another one."""
    data, n, fencer = s.server.backend.snapshot(), await s.fence_epoch(), s.fencer
    frozen = s.freeze_at("votes_shut", fencer)
    s.fail(None, kind="restart")
    await frozen
    s.step_clock(-s.rng.uniform(0.5, 9.0))
    s.fail(data)
    await s.fenced(n, 7.5)
    await s.pause(0.0, 0.1)
    s.cast(s.vote("confirmed"), s.first, 2)
    s.thaw(fencer)
    await s.pause(0.01, 0.1)
    s.cast(s.vote("after"), s.second, 2)


async def lag(s: Stage) -> None:
    """The fold lags behind, without any other fault: nothing is in doubt."""
    await s.warm(s.first)
    n = await s.fence_epoch()
    length_s = s.hold_back(s.log, 2.5, 4.5)
    await s.cast_several(4, pause=(0.01, 0.5))
    await s.pause(length_s)
    s.demand(await s.fence_epoch() == n, "a fold that lags was fenced")
