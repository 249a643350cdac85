"""`tally replay rollback|keep|drop`: restores, keeps or deletes former generations."""

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
    """Swap the former views back in, undoing the latest replay or that of the given generation."""

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
                "Readers see the former generations."
                if execute
                else "Run again with --execute to restore the former generations."
            )
            typer.echo(doing if undone else "There is nothing to roll back.")
        return ExitCode.FINE if undone else ExitCode.PROBLEM

    run(work())


def keep(
    projection: Projections = None,
    contest: Contest = None,
    hold: Annotated[
        bool, typer.Option("--hold/--no-hold", help="Keep until dropped, or for one more day.")
    ] = True,
    execute: Execute = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Keep the former views until they are dropped; otherwise projectors drop them a day after the replay.

    Meanwhile each batch is folded twice, `tally replay rollback` restores the former views at once, and the
    projection cannot be rebuilt again.
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
    """Delete generations that readers do not use: all of them, or the given one. This frees their memory."""

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
        # Hold all partitions first, so that none expires: either all are swapped or none.
        for partition, (kept, _) in swaps.items():
            if not await generations.hold(partition, kept):
                raise GenerationGone.of(kept, generations.base(partition))
        for partition, (kept, read) in swaps.items():
            await swap(generations, partition, kept, read=read, accept=accept)
    done: dict[str, object] = {"projection": target.name, "generation": number, "partitions": len(swaps)}
    return [done] if swaps else []
