"""`tally replay plan|run|rollback|drop`."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, NamedTuple

import typer

from libs.contracts.tokens import decode_positions
from libs.kafka.log import LogReader
from libs.views.client import Valkey
from libs.views.functions import load_functions, open_valkey
from services.operations.connect import DATA_DIR, Stack, find_stack
from services.operations.replay.job import Job, Rebuilt, swap
from services.operations.replay.planning import Plan
from services.operations.replay.planning import plan as make_plan
from services.operations.replay.projections import ALL, Name
from services.operations.replay.showing import show_plan, show_rebuilt
from services.operations.replay.targets import Target, former, latest_read
from services.operations.running import AsJson, DataDir, Ending, moment, print_json
from services.operations.running import run as run_to_its_end
from services.operations.verification.fold import without_gc

app = typer.Typer(no_args_is_help=True, help="Fold views anew from the log while voting and reading go on.")

Projections = Annotated[
    list[Name] | None, typer.Option("--projection", help="What to rebuild; may be repeated. Absent: all views.")
]
Contest = Annotated[str | None, typer.Option("--contest", help="Only this contest of the votes.")]
Outdated = Annotated[
    bool, typer.Option("--outdated", help="Only projections whose stored layout is another than the code's.")
]
Number = Annotated[int | None, typer.Option("--generation", help="Its number, as `tally status` shows it.")]
Execute = Annotated[bool, typer.Option("--execute", help="Do it; else it is only shown.")]


class Desk(NamedTuple):
    """What the commands work with."""

    stack: Stack
    valkey: Valkey
    reader: LogReader


@app.command()
def plan(
    projection: Projections = None,
    contest: Contest = None,
    outdated: Outdated = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """What a replay would fold, how long it would take, and the memory it would need. Nothing is changed."""

    async def work() -> Ending:
        async with open_desk(find_stack(data_dir)) as desk:
            found = await _plan(desk, targets_of(projection, contest), outdated)
        print_json(found.as_json()) if as_json else show_plan(found)
        return Ending.FINE if found.fits else Ending.PROBLEM

    run_to_its_end(work())


@app.command()
def run(
    projection: Projections = None,
    contest: Contest = None,
    outdated: Outdated = False,
    until: Annotated[
        str | None, typer.Option("--until", help="Fold up to this time into a side generation, for looking only.")
    ] = None,
    to_position: Annotated[
        str | None, typer.Option("--to-position", help="The same, up to a Tally-Position of the votes.")
    ] = None,
    accept: Annotated[
        bool, typer.Option("--accept-differences", help="Swap although the catalogue or purchases read otherwise.")
    ] = False,
    parallel: Annotated[int, typer.Option("--parallel", min=1, help="Partitions folded at a time.")] = 4,
    execute: Execute = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Rebuild views beside the live ones, verify them, and have readers see them.

    It can be interrupted, and goes on when it is run again. What is read before goes on being folded, so
    `tally replay rollback` brings it back at once, until `tally replay drop`.
    """

    async def work() -> Ending:
        async with open_desk(find_stack(data_dir)) as desk:
            targets = targets_of(projection, contest)
            if until is not None or to_position is not None:
                return await _look(desk, targets, until, to_position, parallel, execute, as_json)
            found = await _plan(desk, targets, outdated)
            if not execute or not found.fits or not found.parts:
                print_json(found.as_json()) if as_json else show_plan(found)
                return Ending.FINE if found.fits else Ending.PROBLEM
            done: list[Rebuilt] = []
            for part in found.parts:
                job = Job(desk.valkey, desk.reader, desk.stack, part.target, parallel=parallel, quiet=as_json)
                with without_gc():
                    done.append(await job.run(accept=accept))
                if not as_json:
                    show_rebuilt(done[-1])
            if as_json:
                print_json({"rebuilt": [one.as_json() for one in done]})
            return Ending.FINE if all(one.swapped for one in done) else Ending.PROBLEM

    run_to_its_end(work())


@app.command()
def rollback(
    projection: Projections = None,
    contest: Contest = None,
    generation: Number = None,
    execute: Execute = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Have readers see what they saw before a replay was swapped in: the latest one, or the one named."""

    async def work() -> Ending:
        undone = []
        async with open_desk(find_stack(data_dir)) as desk:
            for target in targets_of(projection, contest):
                undone += await _roll_back(desk, target, generation, execute)
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

    run_to_its_end(work())


@app.command()
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

    run_to_its_end(work())


@asynccontextmanager
async def open_desk(stack: Stack) -> AsyncIterator[Desk]:
    valkey = open_valkey(stack.valkey)
    try:
        await load_functions(valkey)
        async with LogReader(stack.kafka_settings) as reader:
            yield Desk(stack, valkey, reader)
    finally:
        await valkey.close()


def targets_of(projections: Sequence[Name] | None, contest: str | None) -> list[Target]:
    """Raises `BadParameter` where a contest is named with another projection than the votes."""
    if contest is None:
        return [Target(name) for name in projections or ALL]
    if projections not in (None, [], [Name.VOTES]):
        raise typer.BadParameter("Only the votes can be rebuilt for one contest.", param_hint="--contest")
    return [Target(Name.VOTES, contest)]


async def _plan(desk: Desk, targets: Sequence[Target], outdated: bool) -> Plan:
    found = await make_plan(desk.valkey, desk.reader, desk.stack, targets)
    if not outdated:
        return found
    return Plan(
        [part for part in found.parts if part.schema != part.code_schema], found.events_per_s, found.free_bytes
    )


async def _look(
    desk: Desk,
    targets: Sequence[Target],
    until: str | None,
    to_position: str | None,
    parallel: int,
    execute: bool,
    as_json: bool,
) -> Ending:
    if until is None:
        targets = [target for target in targets if target.row.prefix == "votes"]
    if not targets:
        raise typer.BadParameter("A Tally-Position is one of the votes.", param_hint="--to-position")
    done, events = [], {}
    for target in targets:
        stops = await _stops(desk, target, until, to_position)
        events[target.title] = sum(stops.values())
        if not execute:
            continue
        job = Job(desk.valkey, desk.reader, desk.stack, target, parallel=parallel, quiet=as_json)
        with without_gc():
            done.append(await job.look(stops))
        if not as_json:
            show_rebuilt(done[-1])
    if as_json:
        print_json({"rebuilt": [one.as_json() for one in done]} if execute else {"events": events})
    for title, count in events.items() if not execute and not as_json else ():
        typer.echo(f"{title}: {count:,} events into a side generation, with --execute.")
    return Ending.FINE


async def _stops(desk: Desk, target: Target, until: str | None, token: str | None) -> dict[int, int]:
    """Where to stop in each partition: behind what was appended up to a time, or at a position of the votes."""
    topic = target.row.topic(desk.stack)
    partitions = range(topic.partitions)
    if until is not None:
        return await desk.reader.offsets_from(topic.name, partitions, moment(until, "--until") // 1000 + 1)
    try:
        asked = decode_positions(token or "")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--to-position") from None
    ends = await desk.reader.end_offsets(topic.name, partitions)
    return {partition: min(end, asked.get(partition, 0)) for partition, end in ends.items()}


async def _roll_back(desk: Desk, target: Target, number: int | None, execute: bool) -> list[dict[str, object]]:
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
            await swap(generations, partition, own.number, read=False)
        elif execute and before is not None:
            await swap(generations, partition, before)
    done: dict[str, object] = {"projection": target.name, "generation": number, "partitions": partitions}
    return [done] if partitions else []
