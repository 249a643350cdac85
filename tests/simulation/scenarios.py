"""Scenarios: short sequences of requests and faults that meet races which random plans hardly ever meet.

Half of the schedules have one. It is written by what it does, not by what it is to find: its times, lengths and
variants are random, and the promises are those of all schedules.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from libs.contracts.topics import votes_topic
from libs.tally.events import ContestClosed, ContestReopened, Event
from tests.simulation.contests import PARTICIPANTS, moment
from tests.simulation.deployment import NAMESPACE
from tests.simulation.faults import Streams
from tests.simulation.stage import CONTEST, Stage

NO_LIMITS: Final = {"max_participant": -1, "max_contest": -1}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario, and the deployment and the contest that it needs."""

    play: Callable[[Stage], Coroutine[Any, Any, None]]
    rules: Callable[[Random], Mapping[str, Any]] = lambda _: {}
    kinds: tuple[str, ...] = ("voteonly",)
    partitions: int = 1
    servers: int = 1
    gateways: int = 2
    projectors: int = 1
    has_purchases: bool = False

    def document(self, rng: Random, its: Mapping[str, Any]) -> dict[str, Any]:
        """Return a contest's document with what the scenario needs."""
        config = its["contest_config"] | BASE | self.rules(rng)
        return {**its, "contest_type": rng.choice(self.kinds), "contest_config": config}


BASE: Final = {
    "free": NO_LIMITS,
    "paid": {**NO_LIMITS, "is_anonymous": True},
    "renew_free_vote": {"cooldown": 0, "days_between": 0},
    "rating": {"max_per_participant": 1, "sub_rating_configs": [{"sub_rating_id": "taste"}]},
    "ip_restriction_per_participant": -1,
    "is_vote_removal_allowed": True,
}


def once(_: Random) -> Mapping[str, Any]:
    """One vote a voter."""
    return {"free": {"max_participant": 1, "max_contest": 1}}


def renewed(_: Random) -> Mapping[str, Any]:
    """One vote a voter and second."""
    return {
        "free": {"max_participant": 1, "max_contest": 1},
        "renew_free_vote": {"cooldown": 1, "days_between": 0},
    }


async def hold_a_vote(s: Stage) -> None:
    """A gateway is frozen, or killed, with a reservation until a fence ends it; another one is sent the id."""
    rng, vote = s.rng, s.vote()
    await s.warm(s.first, s.second)
    n = (await s.state()).incarnation
    frozen = s.freeze_at(rng.choice(["votes_reserve", "votes_reserve", "votes_confirm"]), s.first)
    s.cast(vote, s.first, 2)
    await frozen
    if rng.random() < 0.2:
        s.world.restart_later(s.first, rng.uniform(0.5, 5.0))
    await s.fenced(n)
    again = vote if rng.random() < 0.5 else s.vote(participant="b")
    match rng.choice(["refused", "lost", "repeated"]):
        case "refused":
            # it is pending when the first attempt is refused by the log
            await s.warm(s.second)
            held = s.freeze_at("votes_reserve", s.second)
            s.cast(again, s.second, 2)
            await held
            with s.faulty(refused=1.0):
                s.thaw(s.first)
                await s.pause(0.02, 0.2)
            await s.cast(s.vote("another"), s.first)
            s.thaw(s.second)
        case "lost":
            with s.faulty(loss=1.0):
                s.thaw(s.first)
                await s.pause(0.02, 0.2)
        case _:
            await s.cast(again, s.second, 3)
            s.thaw(s.first)


async def hold_a_removal(s: Stage) -> None:
    """A gateway is frozen with a removal, while an operator voids the vote; a fence ends it, or not."""
    rng, vote = s.rng, s.vote()
    await s.cast(vote, s.second, 3)
    await s.warm(s.first)
    n = (await s.state()).incarnation
    frozen = s.freeze_at("votes_remove", s.first)
    removal = s.remove(vote, s.first, 2)
    await frozen
    await s.append(s.voiding(vote))
    if rng.random() < 0.6:
        await s.fenced(n)
        await s.pause(0.0, 0.3)
    s.thaw(s.first)
    await removal
    await s.remove(vote, s.second, 2)
    await s.append(s.restoring(vote))


async def void_and_restore(s: Stage) -> None:
    """Operations void and restore the same votes, also after the close; some are removed or refunded meanwhile."""
    rng = s.rng
    votes = [s.vote("free"), s.vote("paid", source="c-paid"), s.vote("other", "b")][: rng.choice([1, 2, 3])]
    for vote in votes:
        await s.cast(vote, None, 3)
    ends = rng.random() < 0.5
    if ends:
        await s.patch(end=moment(s.now + rng.uniform(0.2, 1.5)))
    for _ in range(rng.randrange(6, 14)):
        vote, operation = rng.choice(votes), rng.choice(["void0", "void0", "void1"])
        await s.append(s.voiding(vote, operation) if rng.random() < 0.5 else s.restoring(vote, operation))
        await s.pause(0.0, 0.7 if ends else 0.1)
        if rng.random() < 0.15:
            if vote.source == "c-paid":
                s.refund(vote)
            else:
                s.remove(vote)
    if ends:
        s.reopen(3.0)


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


async def step_a_clock(s: Stage) -> None:
    """The clock of the partition's server steps back between votes."""
    for number in range(4):
        await s.cast(s.vote(f"vote{number}"), None, 2)
        if s.rng.random() < 0.5:
            s.step_clock(-s.rng.uniform(0.3, 8.0))


async def move_the_end(s: Stage) -> None:
    """The end is put off while the projector is about to close the contest."""
    rng = s.rng
    end = s.now + rng.uniform(0.4, 1.0)
    await s.patch(end=moment(end))
    await s.when("votes_closing", s.manager, lambda: None)
    await s.freeze_at("catalogue_contest", s.manager, rng.uniform(0.05, 0.5))
    await s.patch(end=moment(s.now + rng.uniform(2.0, 20.0)))


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
        await s.pause(0.0, 0.4)


async def read_after_a_loss(s: Stage) -> None:
    """A replaced server has lost a record's change that is answered, and another gateway reads the record."""
    data = s.server.backend.snapshot()
    await s.patch(s.first, free={"max_participant": 5, "max_contest": 5})
    s.fail(data)
    for _ in range(8):
        s.read(s.rng.choice(s.world.gateways))
        await s.pause(0.05, 0.4)


async def replace_and_remove(s: Stage) -> None:
    """A vote of the former period is replaced and removed, while another one uses this period's allowance."""
    rng = s.rng
    first = s.vote("first")
    await s.warm(s.first)
    await s.cast(first, s.second, 3)
    await s.pause(1.02, 1.2)
    replacing, other = s.vote("replacing"), s.vote("other", "b")
    if rng.random() < 0.5:
        held = s.freeze_at("votes_reserve", s.first)
        s.cast(replacing, s.first)
        await held
        s.cast(other, s.second)
        s.remove(first, s.second)
        await s.pause(0.1, 0.5)
        s.thaw(s.first)
    else:
        held = s.freeze_at("votes_remove", s.first)
        s.remove(first, s.first)
        await held
        await s.cast(other, s.second)
        held = s.freeze_at("votes_reserve", s.second)
        s.cast(replacing, s.second)
        await held
        s.thaw(s.first)
        await s.pause(0.05, 0.2)
        s.thaw(s.second)


async def replace_pending(s: Stage) -> None:
    """A voter changes votes that are still pending, within the limits."""
    rng = s.rng
    await s.warm(s.first, s.second)
    if rng.random() < 0.5:
        await s.cast(s.vote("folded"), s.second, 3)
    s.freeze_at("votes_reserve", s.first, rng.uniform(0.2, 1.5))
    s.cast(s.vote("pending"), s.first)
    for number in range(4):
        await s.pause(0.01, 0.2)
        s.cast(s.vote(f"vote{number}", rng.choice(PARTICIPANTS)), s.second)


async def hold_over_two_periods(s: Stage) -> None:
    """A reservation is pending while allowance periods pass."""
    await s.warm(s.first, s.second)
    held = s.freeze_at("votes_reserve", s.first)
    s.cast(s.vote("held"), s.first)
    await held
    await s.pause(1.0, 1.03)
    s.cast(s.vote("next"), s.second)
    await s.pause(1.0, 1.1)
    s.cast(s.vote("after"), s.second)
    await s.pause(0.02, 0.2)
    s.thaw(s.first)


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
    part, late = ContestReopened(CONTEST, 1, 2), ContestClosed(CONTEST, 1)
    for _ in range(rng.randrange(1, 5)):
        events: list[Event] = [part, part, late, s.voiding(rng.choice(votes))]
        await s.append(rng.choice(events))
    s.thaw(s.manager)


async def correct_a_clock(s: Stage) -> None:
    """The clock of the partition's server was ahead while it voted, and is corrected."""
    ahead = s.rng.uniform(11.0, 60.0)
    s.step_clock(ahead)
    await s.cast(s.vote("early"), None, 3)
    s.step_clock(-ahead)
    for number in range(3):
        await s.pause(0.1, 1.0)
        s.cast(s.vote(f"vote{number}"), None, 2)


async def share_an_address(s: Stage) -> None:
    """Requests of one address are sent at once, two of them with one vote id; some are refused by the log."""
    rng = s.rng
    await s.warm(s.first, s.second)
    vote = s.vote(votes=rng.choice([1, 3]), address="home")
    again = vote if rng.random() < 0.5 else s.vote(votes=rng.choice([1, 3]), address="home")
    if rng.random() < 0.5:
        held = s.freeze_at("votes_reserve", s.first), s.freeze_at("votes_reserve", s.second)
        s.cast(vote, s.first)
        s.cast(again, s.second)
        for each in held:
            await each
        with s.faulty(refused=1.0):
            s.thaw(s.first)
            await s.pause(0.02, 0.2)
        s.thaw(s.second)
    else:
        s.cast(vote, s.first)
        s.cast(again, s.second)
    await s.pause(0.2, 0.4)
    for name in s.others[:4]:
        await s.cast(s.vote(voter=name, address="home"), None, 2)


async def vote_in_batches(s: Stage) -> None:
    """Requests have several votes of one voter, of which some take more calls than others."""
    for number in range(5):
        two = s.rng.random() < 0.5
        votes = [
            s.vote(f"vote{number}", both=two, address="home"),
            s.vote(f"then{number}", both=not two, address="home"),
        ]
        s.batch(votes)
        await s.pause(0.1, 0.5)


async def lag(s: Stage) -> None:
    """The fold lags behind, without any other fault: nothing is in doubt."""
    await s.warm(s.first)
    n = (await s.state()).incarnation
    topic = votes_topic(NAMESPACE, s.world.partitions)
    partition = s.world.deployment.brokers.partitions[topic.name, s.partition]
    length = s.rng.uniform(2.5, 4.5)
    partition.unfetched_until = s.now + length
    for number in range(4):
        s.cast(s.vote(f"vote{number}"), None)
        await s.pause(0.01, 0.5)
    await s.pause(length)
    s.demand((await s.state()).incarnation == n, "a fold that lags was fenced")


SCENARIOS: Final = {
    "hold a vote": Scenario(hold_a_vote, once),
    "hold a removal": Scenario(hold_a_removal),
    "void and restore": Scenario(void_and_restore, kinds=("voteonly", "rating", "ordering")),
    "end with pending": Scenario(end_with_pending),
    "end behind a gate": Scenario(end_behind_a_gate, partitions=2, projectors=2),
    "end by a wrong clock": Scenario(end_by_a_wrong_clock, partitions=2, servers=2),
    "step a clock": Scenario(step_a_clock),
    "move the end": Scenario(move_the_end),
    "lose a change": Scenario(lose_a_change, partitions=2, servers=2, projectors=2),
    "hold a configuration": Scenario(hold_a_configuration),
    "fence in a change": Scenario(fence_in_a_change, partitions=2, projectors=2),
    "raise late": Scenario(raise_late, partitions=2, servers=2, projectors=2),
    "tear a change": Scenario(tear_a_change),
    "lose a vote": Scenario(lose_a_vote, once),
    "read after a loss": Scenario(read_after_a_loss),
    "replace and remove": Scenario(replace_and_remove, renewed, kinds=("rating",)),
    "replace pending": Scenario(
        replace_pending,
        lambda rng: {"free": {"max_participant": 1, "max_contest": rng.choice([1, 2])}},
        kinds=("rating", "ordering"),
    ),
    "hold over two periods": Scenario(hold_over_two_periods, renewed),
    "lag": Scenario(lag),
    "reopen in parts": Scenario(reopen_in_parts),
    "correct a clock": Scenario(correct_a_clock),
    "share an address": Scenario(share_an_address, lambda _: {"ip_restriction_per_participant": 3}),
    "vote in batches": Scenario(
        vote_in_batches,
        lambda _: {"ip_restriction_per_participant": 30},
        kinds=("ordering",),
        partitions=2,
        servers=2,
    ),
}
"""By name."""
SHARE: Final = 0.5
"""Share of the schedules that have one."""


def some_scenario(streams: Streams) -> Scenario | None:
    """Return a schedule's scenario, if it has one. A new scenario takes its share of all others' schedules."""
    if streams["scenario"].random() >= SHARE:
        return None
    return SCENARIOS[max(SCENARIOS, key=lambda name: streams[f"scenario {name}"].random())]
