"""Scenarios of replays: of views whose fold lags, of killed and frozen processes, and rollbacks."""

from typing import Any

from hiredis import ReplyError

from libs.views.generations.generations import ProjectionName
from tests.simulation.contests import limits, moment
from tests.simulation.stage import Stage


async def rebuild_votes(s: Stage) -> None:
    """Votes come while their views are rebuilt, by a process that is frozen or killed at one of its steps."""
    rng = s.rng
    await s.warm(s.first, s.second)
    rebuild = s.rebuild(ProjectionName.VOTES, rolls_back_after_s=rng.choice([None, 0.0, rng.uniform(0.0, 3.0)]))
    step = rng.choice(["open", "fold", "compare", "swap", "swap", "renew"])
    if rng.random() < 0.5:
        s.freeze_at(f"votes_{step}", rebuild, rng.uniform(0.1, 1.5), rng.choice([1, 2]))
    else:
        s.when(f"votes_{step}", rebuild, lambda: s.world.restart_later(rebuild, rng.uniform(0.1, 1.5)))
    for number in range(12):
        vote = s.vote(f"vote{number}")
        s.cast(vote, None, 2)
        await s.pause(0.0, 0.3)
        if rng.random() < 0.2:
            s.remove(vote)


async def rebuild_in_a_lag(s: Stage) -> None:
    """The fold of the votes lags, so that a rebuilt view gets ahead of the live one; both are swapped later."""
    await s.warm(s.first, s.second)
    s.hold_back(s.log, 0.5, 2.0)
    await s.cast_several(4, None, 2, pause=(0.0, 0.2), name="before")
    s.rebuild(ProjectionName.VOTES)
    await s.cast_several(6, None, 2, pause=(0.0, 0.3))


async def rebuild_the_catalogue_in_a_lag(s: Stage) -> None:
    """A change is recorded while the fold of the catalogue lags: the rebuilt view has it first."""
    await s.warm(s.first, s.second)
    s.hold_back(s.catalogue_log, 0.5, 3.0)
    change = s.limit(5, s.second)
    await s.pause(0.05, 0.2)
    s.rebuild(ProjectionName.CATALOGUE)
    await s.cast_several(4, s.first, 2, pause=(0.0, 0.2), name="before")
    await change
    await s.cast_several(3, s.first, 2, pause=(0.01, 0.2))


async def overtake(s: Stage) -> None:
    """A replay is frozen before its swap, while another one folds a change that the live catalogue lacks."""
    await s.warm(s.first, s.second)
    first = s.rebuild(ProjectionName.CATALOGUE)
    await s.call("catalogue_compare", first)
    await s.freeze_at("catalogue_generations", first, number=s.world.catalogue_topic.partitions)
    s.hold_back(s.catalogue_log, 1.0, 3.0)
    change = s.limit(5, s.second)
    await s.pause(0.05, 0.2)
    s.rebuild(ProjectionName.CATALOGUE)
    await s.pause(0.2, 0.6)
    s.thaw(first)
    await change
    await s.cast_several(3, s.first, 2, pause=(0.01, 0.2))


async def lose_a_replay(s: Stage) -> None:
    """The server loses a part of what a replay has folded, or its swap, and goes on with older data."""
    rng = s.rng
    await s.warm(s.first, s.second)
    name = rng.choice([ProjectionName.VOTES, ProjectionName.CATALOGUE])
    rebuild = s.rebuild(name)
    steps = [("open", "fold"), ("fold", "fold"), ("fold", "generations"), ("fold", "compare"), ("fold", "swap")]
    steps.append(("open", "position"))
    before, after = rng.choice(steps)
    await s.call(f"{name}_{before}", rebuild)
    data = s.server.backend.snapshot()
    for number in range(2):
        s.cast(s.vote(f"vote{number}"), s.second, 3)
    if after == "position":  # as it was folded, and not as it was begun
        await s.call(f"{name}_fold", rebuild)
        after = "generations"
    await s.freeze_at(f"{name}_{after}", rebuild, rng.uniform(0.0, 1.0))
    n = await s.fence_epoch()
    s.fail(data)
    await s.cast_several(3, None, 3, pause=(0.0, 0.3), name="after")
    await s.fenced(n)
    s.cast(s.vote("last"), None, 3)


async def roll_back(s: Stage) -> None:
    """A replay is rolled back, slowly, while votes go on; nothing that is asked for in time has expired."""
    rng = s.rng
    await s.cast_in_turn(*(s.vote(f"vote{number}") for number in range(3)))
    rebuild, keep_s = s.rebuild(ProjectionName.VOTES), s.world.deployment.keep_s
    begun = s.now
    if rng.random() < 0.5:
        await s.freeze_at("votes_swap", rebuild, rng.uniform(0.3, 2.0))
    await rebuild.ended()
    for number in range(2):
        s.cast(s.vote(f"new{number}"), None, 3)
    if keep_s < 10:
        await s.pause(0.0, keep_s - 1.2)
    is_in_time = s.now - begun < keep_s - 1.1  # what is kept expires in whole seconds
    back = s.rebuild(ProjectionName.VOTES, only_rolls_back=True)
    s.freeze_at("votes_swap", back, rng.choice([0.0, 0.4, min(4.0, keep_s - 1.5)]))
    await back.ended()
    live = await _live_votes(s)
    s.demand(len(live) == 1, f"after a rollback generations {live} are live")
    s.demand(live == {1} or not is_in_time, f"generation {live} is live, which was rolled back")
    s.cast(s.vote("last"), None, 3)
    if rng.random() < 0.5:
        await s.rebuild(ProjectionName.VOTES).ended()


async def _live_votes(s: Stage) -> set[int]:
    """Return the numbers of the live generations, once a server that was emptied has its functions again."""
    while True:
        try:
            found = await s.world.projections[ProjectionName.VOTES].read_all()
        except ReplyError:
            await s.pause(0.1, 0.1)
        else:
            return {one.live.number for one in found.values()}


async def two_replays(s: Stage) -> None:
    """Two operators rebuild the same views at once."""
    rng = s.rng
    await s.warm(s.first)
    name = rng.choice([ProjectionName.VOTES, ProjectionName.CATALOGUE])
    first = s.rebuild(name)
    s.rebuild(name)
    s.freeze_at(f"{name}_{rng.choice(['open', 'fold', 'generations', 'swap'])}", first, rng.uniform(0.05, 1.5))
    await s.cast_several(4, None, 2, pause=(0.0, 0.4))


async def upgrade(s: Stage) -> None:
    """A newer version rebuilds the views in its layouts, beside the former one, whose fold of the catalogue lags.

    Meanwhile a change, or an end, is recorded; the former gateway goes on by what it knows of the contest.
    """
    rng, newer = s.rng, s.second.newer

    async def vote_somehow(name: str) -> None:
        for number in range(3):
            s.cast(s.vote(f"{name}{number}", rng.choice("ab")), rng.choice([s.first, s.second]), 2)
            await s.pause(0.0, 0.3)

    await s.warm(s.first)
    if rng.random() < 0.8:
        s.hold_back(s.catalogue_log, 2.0, 9.0)
    end = moment(s.now + rng.uniform(0.1, 2.0))
    change: dict[str, Any] = rng.choice([{"free": limits(5)}, {"end": end}])
    s.patch(None, 40, **change)
    await s.pause(0.05, 0.3)
    names = {"c": ProjectionName.CATALOGUE, "v": ProjectionName.VOTES}
    for name in [names[letter] for letter in newer]:
        rebuild = s.rebuild(name, newer=newer)
        step = rng.choice(["open", "fold", "generations", "swap"])
        if rng.random() < 0.4:
            s.freeze_at(f"{name}_{step}", rebuild, rng.uniform(0.1, 1.0), rng.choice([1, 2]))
        elif rng.random() < 0.5:
            s.kill_at(f"{name}_{step}", rebuild, rng.uniform(0.1, 1.0))
        elif rng.random() < 0.5:
            s.freeze_at("votes_reserve", s.first, rng.uniform(0.5, 3.0))
        await vote_somehow(f"{name}")
        await rebuild.ended()
        await vote_somehow(f"then {name}")
    await s.pause(0.0, 1.0)
    s.world.end_upgrade()
    if rng.random() < 0.3:
        await s.rebuild(names[newer[0]], newer=newer).ended()
    for number in range(2):
        s.cast(s.vote(f"last{number}", rng.choice("ab")), None, 3)


async def rebuild_in_two_layouts(s: Stage) -> None:
    """The former version rebuilds views whose rebuilding by a newer one, in its layout, has stopped on the way."""
    rng, newer = s.rng, s.second.newer
    await s.warm(s.first)
    name = ProjectionName.CATALOGUE if newer == "c" else ProjectionName.VOTES
    first = s.rebuild(name, newer=newer)
    partitions = s.world.catalogue_topic.partitions if newer == "c" else s.world.partitions
    step, number = rng.choice([("open", 1), ("fold", 1), ("generations", 4 * partitions)])
    await s.freeze_at(f"{name}_{step}", first, number=number)
    former = s.rebuild(name) if first.process.is_frozen else first
    await s.cast_several(3, None, 2, pause=(0.0, 0.3))
    await former.ended()
    s.cast(s.vote("then"), None, 2)
    await s.pause(0.0, 0.3)
    s.thaw(first)
    await first.ended()
    s.world.end_upgrade()
    s.cast(s.vote("last"), None, 3)


async def rebuild_a_part_meanwhile(s: Stage) -> None:
    """A replay is killed; until it is run again, another one rebuilds a single partition, and is rolled back."""
    rng = s.rng
    await s.warm(s.first, s.second)
    rebuild, hold_s = s.rebuild(ProjectionName.VOTES), rng.uniform(1.0, 4.0)
    step = f"votes_{rng.choice(['open', 'fold', 'fold', 'generations', 'swap'])}"
    await s.kill_at(step, rebuild, hold_s, rng.choice([1, 2]))
    part = s.rebuild(ProjectionName.VOTES, is_partial=True, rolls_back_after_s=rng.uniform(0.0, 0.5))
    await s.cast_several(4, None, 2, pause=(0.0, 0.3))
    await part.ended()
    await rebuild.ended()
    s.cast(s.vote("last"), None, 3)


async def overtake_the_former_version(s: Stage) -> None:
    """Only a rebuilt catalogue has folded a change, of one replay or of another one at the same time.

    The former gateway, which knows the contest as it was, goes on; its projector reads nothing of the catalogue.
    """
    rng, newer = s.rng, s.second.newer
    await s.warm(s.first)
    first = s.rebuild(ProjectionName.CATALOGUE, newer=newer)
    if rng.random() < 0.5:
        # it knows the positions of all partitions, and has swapped those before the contest's
        await s.freeze_at("catalogue_swap", first, number=s.catalogue)
        s.catalogue_log.unfetched_until = s.now + 9.0
        s.limit(5, s.first, 1)
        await s.pause(0.05, 0.2)
        second = s.rebuild(ProjectionName.CATALOGUE, newer=newer)
        await s.freeze_at("votes_raise", second)
        s.thaw(first)
        await first.ended()
        await s.limit(5, s.second)
        await s.pause(0.001, 0.01)
        s.cast(s.vote("by what was"), s.first, 2)
        await s.pause(0.05, 0.3)
        s.thaw(second)
        await second.ended()
    else:
        s.catalogue_log.unfetched_until = s.now + 9.0
        s.limit(5, s.first, 1)
        await first.ended()
        await s.limit(5, s.second)
    for number in range(3):
        s.cast(s.vote(f"vote{number}"), rng.choice([s.first, s.first, s.second]), 2)
        await s.pause(0.01, 0.2)
    if "v" in newer:
        await s.rebuild(ProjectionName.VOTES, newer=newer).ended()
    await s.pause(0.1, 0.5)
    s.world.end_upgrade()
    s.cast(s.vote("last"), None, 3)


async def know_no_event(s: Stage) -> None:
    """A newer version records events that the former one does not know: its projectors wait, and skip nothing."""
    rng = s.rng
    votes = [s.vote(f"vote{number}") for number in range(3)]
    await s.cast_in_turn(*votes)
    await s.append(s.voiding(rng.choice(votes)))
    await s.cast_several(2, None, 2, pause=(0.0, 0.2), name="then")
    status = s.client.run(s.set_statuses("rejected"))
    await s.pause(0.2, 1.5)
    s.cast(s.vote("after"), None, 2)
    s.world.end_upgrade()
    await status
    await s.set_statuses("approved")
    s.cast(s.vote("last"), None, 2)
