"""`tally replay rollback|keep|drop`: restores, keeps or deletes former generations."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from libs.deployment.deployment import Deployment
from libs.tally.errors import NotFound
from libs.views.function_loading import load_functions
from libs.views.generations import GenerationGone, State
from services.cli.command_decorator import Execute, OneContest, command
from services.cli.commands.replay.options import Accept, Number, Projections, find_targets
from services.cli.commands.replay.projections import Rebuildable
from services.cli.commands.replay.swap import swap
from services.cli.commands.replay.targets import OfTarget, Target, former, latest_read
from services.cli.operator_actions import record_action
from services.cli.render import Block


@dataclass(frozen=True, slots=True)
class Restored(OfTarget):
    """A former generation, and the number of partitions in which readers see it."""

    generation: int | None
    partitions: int


@dataclass(frozen=True, slots=True)
class Rollback:
    rolled_back: list[Restored]
    executed: bool


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of one partition."""

    projection: Rebuildable
    partition: int
    generation: int


@dataclass(frozen=True, slots=True)
class KeptGenerations:
    """Generations kept until they are dropped (`hold`), or for the usual time."""

    kept: list[Generation]
    hold: bool
    executed: bool


@dataclass(frozen=True, slots=True)
class Dropped:
    """Dropped generations, and the number of their keys."""

    dropped: list[Generation]
    keys: int
    executed: bool


def _rolled_back(result: Rollback) -> Iterator[Block]:
    for one in result.rolled_back:
        yield f"{one.target.title}: generation {one.generation} in {one.partitions} partitions"
    if not result.rolled_back:
        yield "There is nothing to roll back."
    elif result.executed:
        yield "Readers see the former generations."
    else:
        yield "Run again with --execute to restore the former generations."


@command(text=_rolled_back)
async def rollback(
    deployment: Deployment,
    projection: Projections = None,
    contest: OneContest = None,
    generation: Number = None,
    accept: Accept = False,
    execute: Execute = False,
) -> Rollback:
    """Swap the former views back in, undoing the latest replay or that of the given generation.

    Exit code 0 if there is nothing to roll back; 2 if the given generation is none that readers ever saw.
    """
    await load_functions(deployment.valkey)
    undone = []
    for target in await find_targets(deployment, projection, contest):
        if execute:
            await record_action(
                deployment,
                "replay rolled back",
                projection=target.title,
                generation=generation,
                accept_differences=accept,
            )
        undone += await _roll_back(deployment, target, generation, execute, accept)
    if generation is not None and not undone:
        raise NotFound(
            f"Generation {generation} cannot be rolled back: readers never saw it, or see it no longer."
        )
    return Rollback(undone, execute)


def _kept(result: KeptGenerations) -> Iterator[Block]:
    yield from _numbers(result.kept)
    until = "until they are dropped" if result.hold else "for the usual time"
    if not result.kept:
        yield "There is nothing to keep."
    else:
        yield f"They are kept {until}." if result.executed else f"Run again with --execute to keep them {until}."


@command(text=_kept)
async def keep(
    deployment: Deployment,
    projection: Projections = None,
    contest: OneContest = None,
    hold: Annotated[
        bool, typer.Option("--hold/--no-hold", help="Keep until dropped, or for one more day.")
    ] = True,
    execute: Execute = False,
) -> KeptGenerations:
    """Keep the former views until they are dropped; otherwise projectors drop them a day after the replay.

    Meanwhile each batch is processed twice, `tally replay rollback` restores the former views at once, and the
    projection cannot be rebuilt again.
    """
    await load_functions(deployment.valkey)
    kept = []
    for target in await find_targets(deployment, projection, contest):
        if execute:
            await record_action(deployment, "generations kept", projection=target.title, hold=hold)
        generations = target.row.generations(deployment)
        for partition, found in (await generations.read_all()).items():
            for one in found.others.values():
                if one.state is State.KEPT and (contest is None or one.scope == target.scope):
                    if execute:
                        await generations.hold(partition, one.number, hold)
                    kept.append(Generation(target.name, partition, one.number))
    return KeptGenerations(kept, hold, execute)


def _dropped(result: Dropped) -> Iterator[Block]:
    yield from _numbers(result.dropped)
    if not result.dropped and not result.keys:
        yield "There is nothing to drop."
    else:
        yield f"Dropped: {result.keys:,} keys." if result.executed else "Run again with --execute to drop them."


@command(text=_dropped)
async def drop(
    deployment: Deployment, projection: Projections = None, generation: Number = None, execute: Execute = False
) -> Dropped:
    """Delete generations that readers do not use: all of them, or the given one. This frees their memory."""
    await load_functions(deployment.valkey)
    dropped, keys = [], 0
    for target in await find_targets(deployment, projection, None):
        if execute:
            await record_action(deployment, "generations dropped", projection=target.title, generation=generation)
        generations = target.row.generations(deployment)
        for partition, found in (await generations.read_all()).items():
            for one in found.others.values():
                if generation in (None, one.number):
                    dropped.append(Generation(target.name, partition, one.number))
                    if execute:
                        await generations.drop(partition, one.number)
        keys += await generations.sweep() if execute else 0
    if generation is not None and not dropped:
        raise NotFound(f"No generation {generation} can be dropped: it does not exist, or readers use it.")
    return Dropped(dropped, keys, execute)


def _numbers(generations: list[Generation]) -> Iterator[Block]:
    for name, number in sorted({(str(one.projection), one.generation) for one in generations}):
        yield f"{name}: generation {number}"


async def _roll_back(
    deployment: Deployment, target: Target, number: int | None, execute: bool, accept: bool
) -> list[Restored]:
    generations = target.row.generations(deployment)
    found = await generations.read_all()
    number = latest_read(found, target.scope) if number is None else number
    swaps: dict[int, tuple[int, bool]] = {}
    for partition, one in found.items():
        own, before = None if number is None else one.get(number), former(one)
        if own is not None and own.read and own is not one.live:
            swaps[partition] = own.number, False
        elif own is not None and own.read and before is not None:
            swaps[partition] = before, True
    if execute:
        # Hold all partitions first, so that none expires: either all are swapped or none.
        for partition, (kept, _) in swaps.items():
            if not await generations.hold(partition, kept):
                raise GenerationGone.of(kept, generations.base(partition))
        for partition, (kept, read) in swaps.items():
            await swap(generations, partition, kept, read=read, accept=accept)
    return [Restored(target, number, len(swaps))] if swaps else []
