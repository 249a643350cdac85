"""Scenarios of contests: their ends and reopenings, and changes of their configurations."""

from libs.tally.events import ContestClosed, ContestReopened, Event
from tests.simulation.stage import CONTEST, Stage


async def end_with_pending(s: Stage) -> None:
    """The contest ends while gateways are frozen with reservations, whose records come after the end."""
    rng = s.rng
    kept = s.vote("kept")
    await s.cast(kept, s.second, 3)
    end = await s.end_in(0.5, 1.0)
    await s.warm(s.first)
    await s.sleep_until(end - rng.uniform(0.02, 0.3))
    what = rng.choice(["votes_reserve", "votes_remove"])
    s.freeze_at(what, s.first, rng.uniform(0.8, 2.5))
    if what == "votes_reserve":
        s.cast(s.vote("late"), s.first)
    else:
        s.remove(kept, s.first)
    s.cast(s.vote("soon"), s.second)
    await s.sleep_until(end)
    s.cast(s.vote("after"), s.second)


async def end_behind_a_gate(s: Stage) -> None:
    """A replaced server has lost a reservation, and its gate stays shut for a while, in which the contest ends."""
    s.choose_apart_by_projector()
    end = await s.end_in(0.4, 0.6)
    await s.warm(s.first)
    await s.sleep_until(end - 0.1)
    data = s.server.backend.snapshot()
    await s.hold(s.vote(), s.first)
    await s.pause(0.0, 1.5)
    fencer, manager = s.fencer, s.manager
    s.freeze_at("votes_shut", fencer, s.rng.uniform(2.0, 5.0))
    s.fail(data)
    log, before = s.log.records, len(s.log.records)
    await s.until(lambda: len(log) > before and manager is not fencer, 3.0)
    s.thaw(s.first)


async def end_by_a_wrong_clock(s: Stage) -> None:
    """The partition's clock is late when the contest ends by the projector's."""
    s.choose_apart_by_server()
    s.step_clock(-s.rng.uniform(1.0, 8.0))
    await s.end_in(0.3, 1.0)
    await s.cast_several(5, pause=(0.2, 0.6))


async def move_the_end(s: Stage) -> None:
    """The end is put off while the projector is about to close the contest."""
    await s.end_in(0.4, 1.0)
    await s.call("votes_closing", s.manager)
    await s.freeze_at("catalogue_contest", s.manager, s.rng.uniform(0.05, 0.5))
    await s.end_in(2.0, 20.0)


async def reopen_in_parts(s: Stage) -> None:
    """Changes wait at a reopening; a manager that was suspended appends its markers in between."""
    rng = s.rng
    votes = [s.vote(name) for name in ("one", "two", "three")]
    await s.cast_in_turn(*votes)
    await s.end_in(0.1, 0.5)

    async def closed() -> bool:
        return (await s.votes.closing(s.partition, CONTEST)).closed > 0

    await s.until(closed)
    for vote in votes:
        await s.append(s.voiding(vote), *([s.restoring(vote)] if rng.random() < 0.7 else []))
    frozen = s.freeze_at("catalogue_apply", s.manager)
    s.reopen(rng.choice([4.0, 300.0]))
    await frozen
    if not any(rb"reopened\":1" in record.value for record in s.catalogue_log.records):
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
    s.choose_apart_by_server()
    await s.warm(s.first)
    data = s.server.backend.snapshot()
    await s.limit(5, s.second)
    s.fail(data, s.rng.choice([0.0, 0.05, 0.5]))
    await s.cast_several(6, s.first, 2, pause=(0.05, 0.6))


async def hold_a_configuration(s: Stage) -> None:
    """A gateway is frozen with a configuration that it is about to put in force, while it is changed."""
    await s.warm(s.first)
    n = await s.fence_epoch()
    s.fail(None)
    await s.fenced(n)
    await s.limit(4, s.second)
    await s.hold(s.vote("held"), s.first, 2, "catalogue_contest")
    await s.limit(5, s.second)
    s.thaw(s.first)
    await s.cast_several(3, s.first, 2, pause=(0.01, 0.1))


async def fence_in_a_change(s: Stage) -> None:
    """A fence comes between the raise of a configuration and its fold, whose projector is frozen."""
    rng = s.rng
    s.choose_apart_by_projector()
    await s.warm(s.first)
    n = await s.fence_epoch()
    await s.warm(s.second)
    s.freeze_at("votes_reserve", s.second, rng.uniform(3.0, 5.0))
    s.cast(s.vote("held"), s.second)
    await s.pause(0.5, 1.8)
    s.freeze_at("votes_raise", s.manager, rng.uniform(4.0, 5.9), 2)
    change = s.limit(5, s.first)
    await s.fenced(n)
    s.cast(s.vote("soon"), s.first, 2)
    await change
    await s.cast_several(3, s.first, 2, pause=(0.01, 0.2))


async def delete_a_contest(s: Stage) -> None:
    """A contest is deleted while votes come in, at gateways that know it; its records go in parts."""
    rng = s.rng
    await s.warm(s.first, s.second)
    if rng.random() < 0.5:
        s.freeze_at(rng.choice(["votes_raise", "catalogue_apply"]), s.manager, rng.uniform(0.1, 2.0))
    deleted = s.delete()
    await s.cast_several(4, None, 2, pause=(0.0, 0.2))
    await deleted
    await s.pause(0.001, 0.01)
    await s.cast_several(3, s.first, 2, pause=(0.0, 0.2), name="after")


async def spoil_the_logs(s: Stage) -> None:
    """Records that cannot be decoded come between others: they are set aside, and all else counts."""
    deployment = s.world.deployment
    places = (
        (deployment.votes_topic, s.partition),
        (deployment.catalogue_topic, s.catalogue),
        (deployment.purchases_topic, 0),
    )
    for number in range(6):
        await s.spoil(*s.rng.choice(places))
        s.cast(s.vote(f"vote{number}"), None, 3)
        if s.rng.random() < 0.3:
            await s.patch(free={"max_participant": number + 3, "max_contest": 9})
        await s.pause(0.0, 0.2)


async def raise_late(s: Stage) -> None:
    """A projector is frozen in the raise of a configuration until another has folded that and the next one."""
    manager = s.manager
    await s.warm(s.first)
    frozen = s.freeze_at("votes_raise", manager)
    s.limit(5, s.second, 1)
    await frozen
    await s.until(lambda: s.manager is not manager, 7.0)
    await s.pause(0.05, 0.2)
    await s.cast(s.vote("middle"), s.first, 2)
    await s.limit(6, s.second)
    n = await s.fence_epoch()
    s.fail(None)
    await s.fenced(n)
    s.thaw(manager)
    await s.pause(0.003, 0.02)
    await s.cast_several(3, s.first, 2, pause=(0.005, 0.03))


async def tear_a_change(s: Stage) -> None:
    """Messages are lost while a configuration is changed."""
    await s.warm(s.first)
    asked = s.call("votes_raise", s.manager)
    change = s.limit(5, s.second)
    await asked
    with s.faulty(loss=1.0):
        await s.pause(0.0005, 0.0025)
    await change
    await s.cast_several(3, s.first, 2, pause=(0.01, 0.1))
