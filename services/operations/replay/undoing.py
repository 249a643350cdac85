"""`tally replay rollback|drop`: what was read before is read again, or given up."""

import typer

from services.operations.acting import record_action
from services.operations.connect import DATA_DIR, find_stack
from services.operations.replay.desk import (
    Accept,
    Contest,
    Desk,
    Execute,
    Number,
    Projections,
    open_desk,
    targets_of,
)
from services.operations.replay.job import swap
from services.operations.replay.targets import Target, former, latest_read
from services.operations.running import AsJson, DataDir, Ending, print_json, run


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

    async def work() -> Ending:
        undone = []
        async with open_desk(find_stack(data_dir)) as desk:
            for target in targets_of(projection, contest):
                if execute:
                    await record_action(
                        desk.stack,
                        "replay rolled back",
                        projection=target.title,
                        generation=generation,
                        accept_differences=accept,
                    )
                undone += await _roll_back(desk, target, generation, execute, accept)
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
        return Ending.FINE if undone else Ending.PROBLEM

    run(work())


def drop(
    projection: Projections = None,
    generation: Number = None,
    execute: Execute = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Give up generations that are not read: all of them, or the one named. Their memory is free again."""

    async def work() -> Ending:
        dropped, keys = [], 0
        async with open_desk(find_stack(data_dir)) as desk:
            for target in targets_of(projection, None):
                if execute:
                    projected = target.title
                    await record_action(
                        desk.stack, "generations dropped", projection=projected, generation=generation
                    )
                generations = target.row.generations(desk.valkey, desk.stack)
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
        return Ending.FINE

    run(work())


async def _roll_back(
    desk: Desk, target: Target, number: int | None, execute: bool, accept: bool
) -> list[dict[str, object]]:
    generations = target.row.generations(desk.valkey, desk.stack)
    found = await generations.read_all()
    number = latest_read(found, target.scope) if number is None else number
    partitions = 0
    for partition, one in enumerate(found):
        own, before = None if number is None else one.get(number), former(one)
        if own is None or not own.read or (own is one.live and before is None):
            continue
        partitions += 1
        if execute and own is not one.live:
            await swap(generations, partition, own.number, read=False, accept=accept)
        elif execute and before is not None:
            await swap(generations, partition, before, accept=accept)
    done: dict[str, object] = {"projection": target.name, "generation": number, "partitions": partitions}
    return [done] if partitions else []
