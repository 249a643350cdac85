"""Scenarios of contests: their ends and reopenings, and changes of their configurations."""

import asyncio

from libs.contracts.topics import catalogue_topic, purchases_topic, votes_topic
from libs.tally.events import ContestClosed, ContestReopened, Event
from tests.simulation.contests import moment
from tests.simulation.deployment import NAMESPACE
from tests.simulation.stage import CONTEST, Stage


async def end_with_pending(s: Stage) -> None:
    """The contest ends while gateways are frozen with reservations, whose records come after the end."""
    rng = s.rng
    kept = s.vote("kept")
    await s.cast(kept, s.second, 3)
    end = s.now + rng.uniform(0.5, 1.0)
    await s.patch(end=moment(end))
    await s.warm(s.first)
    await asyncio.sleep(max(0.0, end - rng.uniform(0.02, 0.3) - s.now))
    what = rng.choice(["votes_reserve", "votes_remove"])
    s.freeze_at(what, s.first, rng.uniform(0.8, 2.5))
    if what == "votes_reserve":
        s.cast(s.vote("late"), s.first)
    else:
        s.remove(kept, s.first)
    s.cast(s.vote("soon"), s.second)
    await asyncio.sleep(max(0.0, end - s.now))
    s.cast(s.vote("after"), s.second)


async def end_behind_a_gate(s: Stage) -> None:
    """A replaced server has lost a reservation, and its gate stays shut for a while, in which the contest ends."""
    rng = s.rng
    s.choose_apart_by_projector()
    end = s.now + rng.uniform(0.4, 0.6)
    await s.patch(end=moment(end))
    await s.warm(s.first)
    await asyncio.sleep(max(0.0, end - 0.1 - s.now))
    data = s.server.backend.snapshot()
    held = s.freeze_at("votes_reserve", s.first)
    s.cast(s.vote(), s.first)
    await held
    await s.pause(0.0, 1.5)
    fencer, manager = s.fencer, s.manager
    s.freeze_at("votes_shut", fencer, rng.uniform(2.0, 5.0))
    s.fail(data)
    topic = votes_topic(NAMESPACE, s.world.partitions)
    log = s.world.deployment.brokers.partitions[topic.name, s.partition].records
    before = len(log)

    async def marked() -> bool:
        return len(log) > before and manager is not fencer

    await s.until(marked, 3.0)
    s.thaw(s.first)


async def end_by_a_wrong_clock(s: Stage) -> None:
    """The partition's clock is late when the contest ends by the projector's."""
    s.choose_apart_by_server()
    s.step_clock(-s.rng.uniform(1.0, 8.0))
    await s.patch(end=moment(s.now + s.rng.uniform(0.3, 1.0)))
    for number in range(5):
        s.cast(s.vote(f"vote{number}"), None)
        await s.pause(0.2, 0.6)


async def move_the_end(s: Stage) -> None:
    """The end is put off while the projector is about to close the contest."""
    rng = s.rng
    end = s.now + rng.uniform(0.4, 1.0)
    await s.patch(end=moment(end))
    await s.when("votes_closing", s.manager, lambda: None)
    await s.freeze_at("catalogue_contest", s.manager, rng.uniform(0.05, 0.5))
    await s.patch(end=moment(s.now + rng.uniform(2.0, 20.0)))


async def reopen_in_parts(s: Stage) -> None:
    """Changes wait at a reopening; a manager that was suspended appends its markers in between."""
    rng = s.rng
    votes = [s.vote(name) for name in ("one", "two", "three")]
    for vote in votes:
        await s.cast(vote, None, 3)
    await s.patch(end=moment(s.now + rng.uniform(0.1, 0.5)))

    async def closed() -> bool:
        return (await s.votes.closing(s.partition, CONTEST)).closed > 0

    await s.until(closed)
    for vote in votes:
        await s.append(s.voiding(vote), *([s.restoring(vote)] if rng.random() < 0.7 else []))
    frozen = s.freeze_at("catalogue_apply", s.manager)
    s.reopen(rng.choice([4.0, 300.0]))
    await frozen
    if not s.is_in_catalogue(rb"reopened\":1"):
        return
    s.cast(s.vote("early"), s.first)
    await s.pause(0.0, 0.1)
    part, late = ContestReopened(CONTEST, 1, 2), ContestClosed(CONTEST, 1)
    for _ in range(rng.randrange(1, 5)):
        events: list[Event] = [part, part, late, s.voiding(rng.choice(votes))]
        await s.append(rng.choice(events))
    s.thaw(s.manager)


async def lose_a_change(s: Stage) -> None:
    """A replaced server lost the configuration in force; the gateway has that before it in its cache."""
    rng = s.rng
    s.choose_apart_by_server()
    await s.warm(s.first)
    data = s.server.backend.snapshot()
    await s.patch(s.second, free={"max_participant": 5, "max_contest": 5})
    s.fail(data, rng.choice([0.0, 0.05, 0.5]))
    for number in range(6):
        s.cast(s.vote(f"vote{number}"), s.first, 2)
        await s.pause(0.05, 0.6)


async def hold_a_configuration(s: Stage) -> None:
    """A gateway is frozen with a configuration that it is about to put in force, while it is changed."""
    await s.warm(s.first)
    n = (await s.state()).incarnation
    s.fail(None)
    await s.fenced(n)
    await s.patch(s.second, free={"max_participant": 4, "max_contest": 4})
    frozen = s.freeze_at("catalogue_contest", s.first)
    s.cast(s.vote("held"), s.first, 2)
    await frozen
    await s.patch(s.second, free={"max_participant": 5, "max_contest": 5})
    s.thaw(s.first)
    for number in range(3):
        s.cast(s.vote(f"vote{number}"), s.first, 2)
        await s.pause(0.01, 0.1)


async def fence_in_a_change(s: Stage) -> None:
    """A fence comes between the raise of a configuration and its fold, whose projector is frozen."""
    rng = s.rng
    s.choose_apart_by_projector()
    await s.warm(s.first)
    n = (await s.state()).incarnation
    await s.warm(s.second)
    s.freeze_at("votes_reserve", s.second, rng.uniform(3.0, 5.0))
    s.cast(s.vote("held"), s.second)
    await s.pause(0.5, 1.8)
    s.freeze_at("votes_raise", s.manager, rng.uniform(4.0, 5.9), 2)
    change = s.patch(s.first, free={"max_participant": 5, "max_contest": 5})
    await s.fenced(n)
    s.cast(s.vote("soon"), s.first, 2)
    await change
    for number in range(3):
        s.cast(s.vote(f"vote{number}"), s.first, 2)
        await s.pause(0.01, 0.2)


async def delete_a_contest(s: Stage) -> None:
    """A contest is deleted while votes come in, at gateways that know it; its records go in parts."""
    rng = s.rng
    await s.warm(s.first, s.second)
    if rng.random() < 0.5:
        s.freeze_at(rng.choice(["votes_raise", "catalogue_apply"]), s.manager, rng.uniform(0.1, 2.0))
    deleted = s.delete()
    for number in range(4):
        s.cast(s.vote(f"vote{number}"), None, 2)
        await s.pause(0.0, 0.2)
    await deleted
    await s.pause(0.001, 0.01)
    for number in range(3):
        s.cast(s.vote(f"after{number}"), s.first, 2)
        await s.pause(0.0, 0.2)


async def spoil_the_logs(s: Stage) -> None:
    """Records that cannot be decoded come between others: they are set aside, and all else counts."""
    rng = s.rng
    votes, catalogue = votes_topic(NAMESPACE, s.world.partitions), catalogue_topic(NAMESPACE)
    for number in range(6):
        place = rng.choice([(votes, s.partition), (catalogue, s.catalogue), (purchases_topic(NAMESPACE, 1), 0)])
        await s.spoil(*place)
        s.cast(s.vote(f"vote{number}"), None, 3)
        if rng.random() < 0.3:
            await s.patch(free={"max_participant": number + 3, "max_contest": 9})
        await s.pause(0.0, 0.2)


async def raise_late(s: Stage) -> None:
    """A projector is frozen in the raise of a configuration until another has folded that and the next one."""
    manager = s.manager
    await s.warm(s.first)
    frozen = s.freeze_at("votes_raise", manager)
    s.patch(s.second, 1, free={"max_participant": 5, "max_contest": 5})
    await frozen

    async def moved() -> bool:
        return s.manager is not manager

    await s.until(moved, 7.0)
    await s.pause(0.05, 0.2)
    await s.cast(s.vote("middle"), s.first, 2)
    await s.patch(s.second, free={"max_participant": 6, "max_contest": 6})
    n = (await s.state()).incarnation
    s.fail(None)
    await s.fenced(n)
    s.thaw(manager)
    await s.pause(0.003, 0.02)
    for number in range(3):
        s.cast(s.vote(f"vote{number}"), s.first, 2)
        await s.pause(0.005, 0.03)


async def tear_a_change(s: Stage) -> None:
    """Messages are lost while a configuration is changed."""
    await s.warm(s.first)
    asked = s.when("votes_raise", s.manager, lambda: None)
    change = s.patch(s.second, free={"max_participant": 5, "max_contest": 5})
    await asked
    with s.faulty(loss=1.0):
        await s.pause(0.0005, 0.0025)
    await change
    for number in range(3):
        s.cast(s.vote(f"vote{number}"), s.first, 2)
        await s.pause(0.01, 0.1)
