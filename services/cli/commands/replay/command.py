"""`tally replay plan|run`: plans and runs replays."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from libs.contracts.position_token import decode_positions
from libs.deployment.deployment import Deployment
from services.cli.command_decorator import Execute, OneContest, command, command_group, moment
from services.cli.commands.replay.job import Job, Rebuilt
from services.cli.commands.replay.options import Accept, Outdated, Projections, find_targets
from services.cli.commands.replay.plan import Plan, make_plan
from services.cli.commands.replay.render import plan_text, rebuilt_line, rebuilt_text
from services.cli.commands.replay.targets import Target
from services.cli.operator_actions import record_action
from services.cli.render import Block

app = command_group("Rebuild views from the log while voting and reading continue.")


@dataclass(frozen=True, slots=True)
class Rebuilds:
    """Results of replays whose generation is to become the live one."""

    rebuilt: list[Rebuilt]


@dataclass(frozen=True, slots=True)
class SideGenerations:
    """Results of folding into side generations; before the execution only the numbers of `events`."""

    events: dict[str, int]
    rebuilt: list[Rebuilt]
    executed: bool


@app.command()
@command(text=plan_text, is_fine=lambda plan: plan.fits)
async def plan(
    deployment: Deployment, projection: Projections = None, contest: OneContest = None, outdated: Outdated = False
) -> Plan:
    """Estimate a replay's events, duration and memory. Nothing is changed."""
    return await make_plan(deployment, await find_targets(deployment, projection, contest), outdated=outdated)


def _text(result: Plan | Rebuilds | SideGenerations) -> Iterator[Block]:
    match result:
        case Plan():
            yield from plan_text(result)
        case SideGenerations(executed=False):
            for title, count in result.events.items():
                yield f"{title}: {count:,} events into a side generation, with --execute."
        case _:
            for one in result.rebuilt:
                yield from rebuilt_text(one)


def _is_fine(result: Plan | Rebuilds | SideGenerations) -> bool:
    match result:
        case Plan():
            return result.fits
        case Rebuilds():
            return all(one.swapped for one in result.rebuilt)
    return True


@app.command()
@command(text=_text, is_fine=_is_fine)
async def run(
    deployment: Deployment,
    projection: Projections = None,
    contest: OneContest = None,
    outdated: Outdated = False,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", help="Process the log up to this time into a side generation (a copy for inspection only)."
        ),
    ] = None,
    to_position: Annotated[
        str | None, typer.Option("--to-position", help="Like --until, up to a Tally-Position of the votes.")
    ] = None,
    accept: Accept = False,
    parallel: Annotated[int, typer.Option("--parallel", min=1, help="Partitions processed in parallel.")] = 16,
    execute: Execute = False,
) -> Plan | Rebuilds | SideGenerations:
    """Rebuild views as a new generation (copy), verify it, and swap it in for readers.

    Run it again to resume after an interruption. The former generation is kept up to date, so `tally replay
    rollback` restores it at once. Every batch is therefore processed twice until `tally replay drop`, the next
    replay, or the end of a day; `tally replay keep` keeps the former generation longer.
    """
    targets = await find_targets(deployment, projection, contest)
    if until is not None or to_position is not None:
        return await _fold_side(deployment, targets, until, to_position, parallel, execute)
    planned = await make_plan(deployment, targets, outdated=outdated)
    if not execute or not planned.fits or not planned.parts:
        return planned
    done: list[Rebuilt] = []
    for part in planned.parts:
        title = part.target.title
        await record_action(deployment, "views rebuilt", projection=title, accept_differences=accept)
        done.append(await Job(deployment, part.target, parallel=parallel).run(accept=accept))
        if part is not planned.parts[-1]:
            deployment.progress.note(rebuilt_line(done[-1]))
    return Rebuilds(done)


async def _fold_side(
    deployment: Deployment,
    targets: Sequence[Target],
    until: str | None,
    to_position: str | None,
    parallel: int,
    execute: bool,
) -> SideGenerations:
    if until is None:
        targets = [target for target in targets if target.row.prefix == "votes"]
    if not targets:
        raise typer.BadParameter("A Tally-Position applies to the votes only.", param_hint="--to-position")
    done, events = [], {}
    for target in targets:
        stops = await _stops(deployment, target, until, to_position)
        events[target.title] = sum(stops.values())
        if execute:
            done.append(await Job(deployment, target, parallel=parallel).fold_side(stops))
    return SideGenerations(events, done, execute)


async def _stops(deployment: Deployment, target: Target, until: str | None, token: str | None) -> dict[int, int]:
    """Return the offset at which each partition stops: after the records up to a time, or at a position."""
    topic, reader = target.row.topic(deployment), deployment.reader
    partitions = topic.numbers
    if until is not None:
        return await reader.offsets_from(topic.name, partitions, moment(until, "--until") // 1000 + 1)
    try:
        asked = decode_positions(token or "")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--to-position") from None
    ends = await reader.end_offsets(topic.name, partitions)
    return {partition: min(end, asked.get(partition, 0)) for partition, end in ends.items()}
