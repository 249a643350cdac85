"""`tally replay rollback|keep|drop`: what was read before is read again, kept, or given up."""

from typing import Annotated

import typer

from libs.views.generations import GenerationGone, State
from services.cli.commands.replay.context import (
    Accept,
    Contest,
    Execute,
    Number,
    Projections,
    ReplayContext,
    open_replay_context,
    targets_of,
)
from services.cli.commands.replay.job import swap
from services.cli.commands.replay.targets import Target, former, latest_read
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.operator import record_action
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run


def rollback(
    projection: Projections = None,
    contest: Contest = None,
    generation: Number = None,
    accept: Accept = False,
    execute: Execute = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Have readers see what they saw before a replay was swapped in: the latest one, or the one named."""

    async def work() -> ExitCode:
        undone = []
        async with open_replay_context(find_deployment(data_dir)) as context:
            for target in targets_of(projection, contest):
                if execute:
                    await record_action(
                        context.stack,
                        "replay rolled back",
                        projection=target.title,
                        generation=generation,
                        accept_differences=accept,
                    )
                undone += await _roll_back(context, target, generation, execute, accept)
        if as_json:
            print_json({"rolled_back": undone, "executed": execute})
        for one in undone if not as_json else ():
            typer.echo(f"{one['projection']}: generation {one['generation']} in {one['partitions']} partitions")
        if not as_json:
            doing = (
                "Readers see the former ones."
                if execute
                else "Run again with --execute to have the former ones read."
            )
            typer.echo(doing if undone else "There is nothing to roll back.")
        return ExitCode.FINE if undone else ExitCode.PROBLEM

    run(work())


def keep(
    projection: Projections = None,
    contest: Contest = None,
    hold: Annotated[
        bool, typer.Option("--hold/--no-hold", help="Until it is dropped, or for the usual time from now on.")
    ] = True,
    execute: Execute = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Keep what was read before a replay until it is dropped; else projectors drop it after a day.

    While it is kept each batch is folded twice, `tally replay rollback` brings it back at once, and no other view
    of its projection is rebuilt.
    """

    async def work() -> ExitCode:
        kept = []
        async with open_replay_context(find_deployment(data_dir)) as context:
            for target in targets_of(projection, contest):
                if execute:
                    await record_action(context.stack, "generations kept", projection=target.title, hold=hold)
                generations = target.row.generations(context.valkey, context.stack)
                for partition, found in enumerate(await generations.read_all()):
                    for one in found.others.values():
                        if one.state is State.KEPT and (contest is None or one.scope == target.scope):
                            if execute:
                                await generations.hold(partition, one.number, hold)
                            kept.append(
                                {"projection": target.name, "partition": partition, "generation": one.number}
                            )
        if as_json:
            print_json({"kept": kept, "hold": hold, "executed": execute})
        else:
            for name, number in sorted({(str(one["projection"]), one["generation"]) for one in kept}):
                typer.echo(f"{name}: generation {number}")
            until = "until they are dropped" if hold else "for the usual time"
            doing = f"They are kept {until}." if execute else f"Run again with --execute to keep them {until}."
            typer.echo(doing if kept else "There is nothing to keep.")
        return ExitCode.FINE if kept else ExitCode.PROBLEM

    run(work())


def drop(
    projection: Projections = None,
    generation: Number = None,
    execute: Execute = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Give up generations that are not read: all of them, or the one named. Their memory is free again."""

    async def work() -> ExitCode:
        dropped, keys = [], 0
        async with open_replay_context(find_deployment(data_dir)) as context:
            for target in targets_of(projection, None):
                if execute:
                    projected = target.title
                    await record_action(
                        context.stack, "generations dropped", projection=projected, generation=generation
                    )
                generations = target.row.generations(context.valkey, context.stack)
                for partition, found in enumerate(await generations.read_all()):
                    for one in found.others.values():
                        if generation in (None, one.number):
                            dropped.append(
                                {"projection": target.name, "partition": partition, "generation": one.number}
                            )
                            if execute:
                                await generations.drop(partition, one.number)
                keys += await generations.sweep() if execute else 0
        if as_json:
            print_json({"dropped": dropped, "keys": keys, "executed": execute})
        else:
            numbers = sorted({(str(one["projection"]), one["generation"]) for one in dropped})
            for name, number in numbers:
                typer.echo(f"{name}: generation {number}")
            doing = f"Dropped: {keys:,} keys." if execute else "Run again with --execute to drop them."
            typer.echo(doing if numbers or keys else "There is nothing to drop.")
        return ExitCode.FINE

    run(work())


async def _roll_back(
    context: ReplayContext, target: Target, number: int | None, execute: bool, accept: bool
) -> list[dict[str, object]]:
    generations = target.row.generations(context.valkey, context.stack)
    found = await generations.read_all()
    number = latest_read(found, target.scope) if number is None else number
    swaps: dict[int, tuple[int, bool]] = {}
    for partition, one in enumerate(found):
        own, before = None if number is None else one.get(number), former(one)
        if own is not None and own.read and own is not one.live:
            swaps[partition] = own.number, False
        elif own is not None and own.read and before is not None:
            swaps[partition] = before, True
    if execute:
        # from now on none is dropped for its age: it is all partitions, or none
        for partition, (kept, _) in swaps.items():
            if not await generations.hold(partition, kept):
                raise GenerationGone.of(kept, generations.base(partition))
        for partition, (kept, read) in swaps.items():
            await swap(generations, partition, kept, read=read, accept=accept)
    done: dict[str, object] = {"projection": target.name, "generation": number, "partitions": len(swaps)}
    return [done] if swaps else []
