"""`tally replay plan|run`: plans and runs replays."""

from collections.abc import Sequence
from typing import Annotated

import typer

from libs.audit.log_fold import without_gc
from libs.contracts.position_token import decode_positions
from services.cli.commands.replay.context import (
    Accept,
    Contest,
    Execute,
    Outdated,
    Projections,
    ReplayContext,
    open_replay_context,
    targets_of,
)
from services.cli.commands.replay.job import Job, Rebuilt
from services.cli.commands.replay.plan import Plan
from services.cli.commands.replay.plan import plan as make_plan
from services.cli.commands.replay.render import show_plan, show_rebuilt
from services.cli.commands.replay.targets import Target
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.operator import record_action
from services.cli.runner import AsJson, DataDir, ExitCode, moment, print_json
from services.cli.runner import run as run_to_its_end

app = typer.Typer(no_args_is_help=True, help="Rebuild views from the log while voting and reading continue.")


@app.command()
def plan(
    projection: Projections = None,
    contest: Contest = None,
    outdated: Outdated = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Estimate a replay's events, duration and memory. Nothing is changed."""

    async def work() -> ExitCode:
        async with open_replay_context(find_deployment(data_dir)) as context:
            found = await _plan(context, targets_of(projection, contest), outdated)
        print_json(found.as_json()) if as_json else show_plan(found)
        return ExitCode.FINE if found.fits else ExitCode.PROBLEM

    run_to_its_end(work())


@app.command()
def run(
    projection: Projections = None,
    contest: Contest = None,
    outdated: Outdated = False,
    until: Annotated[
        str | None,
        typer.Option("--until", help="Fold up to this time into a side generation (a copy for inspection only)."),
    ] = None,
    to_position: Annotated[
        str | None, typer.Option("--to-position", help="Like --until, up to a Tally-Position of the votes.")
    ] = None,
    accept: Accept = False,
    parallel: Annotated[int, typer.Option("--parallel", min=1, help="Partitions folded in parallel.")] = 16,
    execute: Execute = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Rebuild views as a new generation (copy), verify it, and swap it in for readers.

    Run it again to resume after an interruption. The former generation is still folded, so `tally replay rollback`
    restores it at once. Every batch is therefore folded twice until `tally replay drop`, the next replay, or the
    end of a day; `tally replay keep` keeps the former generation longer.
    """

    async def work() -> ExitCode:
        async with open_replay_context(find_deployment(data_dir)) as context:
            targets = targets_of(projection, contest)
            if until is not None or to_position is not None:
                return await _fold_side(context, targets, until, to_position, parallel, execute, as_json)
            found = await _plan(context, targets, outdated)
            if not execute or not found.fits or not found.parts:
                print_json(found.as_json()) if as_json else show_plan(found)
                return ExitCode.FINE if found.fits else ExitCode.PROBLEM
            done: list[Rebuilt] = []
            for part in found.parts:
                title = part.target.title
                await record_action(context.stack, "views rebuilt", projection=title, accept_differences=accept)
                job = Job(
                    context.valkey, context.reader, context.stack, part.target, parallel=parallel, quiet=as_json
                )
                with without_gc():
                    done.append(await job.run(accept=accept))
                if not as_json:
                    show_rebuilt(done[-1])
            if as_json:
                print_json({"rebuilt": [one.as_json() for one in done]})
            return ExitCode.FINE if all(one.swapped for one in done) else ExitCode.PROBLEM

    run_to_its_end(work())


async def _plan(context: ReplayContext, targets: Sequence[Target], outdated: bool) -> Plan:
    found = await make_plan(context.valkey, context.reader, context.stack, targets)
    if not outdated:
        return found
    return Plan(
        [part for part in found.parts if part.schema != part.code_schema], found.events_per_s, found.free_bytes
    )


async def _fold_side(
    context: ReplayContext,
    targets: Sequence[Target],
    until: str | None,
    to_position: str | None,
    parallel: int,
    execute: bool,
    as_json: bool,
) -> ExitCode:
    if until is None:
        targets = [target for target in targets if target.row.prefix == "votes"]
    if not targets:
        raise typer.BadParameter("A Tally-Position applies to the votes only.", param_hint="--to-position")
    done, events = [], {}
    for target in targets:
        stops = await _stops(context, target, until, to_position)
        events[target.title] = sum(stops.values())
        if not execute:
            continue
        job = Job(context.valkey, context.reader, context.stack, target, parallel=parallel, quiet=as_json)
        with without_gc():
            done.append(await job.fold_side(stops))
        if not as_json:
            show_rebuilt(done[-1])
    if as_json:
        print_json({"rebuilt": [one.as_json() for one in done]} if execute else {"events": events})
    for title, count in events.items() if not execute and not as_json else ():
        typer.echo(f"{title}: {count:,} events into a side generation, with --execute.")
    return ExitCode.FINE


async def _stops(context: ReplayContext, target: Target, until: str | None, token: str | None) -> dict[int, int]:
    """Return the offset at which each partition stops: after the records up to a time, or at a position."""
    topic = target.row.topic(context.stack)
    partitions = range(topic.partitions)
    if until is not None:
        return await context.reader.offsets_from(topic.name, partitions, moment(until, "--until") // 1000 + 1)
    try:
        asked = decode_positions(token or "")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--to-position") from None
    ends = await context.reader.end_offsets(topic.name, partitions)
    return {partition: min(end, asked.get(partition, 0)) for partition, end in ends.items()}
