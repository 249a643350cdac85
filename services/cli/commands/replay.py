"""`tally replay`: rebuilds views from the log while voting and reading continue."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from typer import BadParameter, Option

from libs.deployment.deployment import Deployment
from libs.replay.job import Job, Rebuilt
from libs.replay.plan import Plan, make_plan
from libs.replay.swap import roll_back
from libs.replay.targets import PROJECTIONS, ReplayTarget
from libs.tally.errors import NotFound
from libs.views.generations.generations import ProjectionName, State
from libs.views.valkey.function_loading import load_functions
from services.cli.command_decorator import Execute, command, command_group, named, titles_by_key
from services.cli.commands.verify import differences_text, figures_text
from services.cli.operator_actions import record_action
from services.cli.output import Block, ExitCode, Result, Rows, plural

MOST_SHOWN: Final = 30

app = command_group("Rebuild views from the log while voting and reading continue.")

Projections = Annotated[
    list[ProjectionName] | None,
    Option("--projection", help="Projection to rebuild; repeatable. Default: all."),
]
Accept = Annotated[
    bool,
    Option(
        "--accept-differences",
        help="Swap even if the catalogue or purchases differ, or accepted votes might no longer count.",
    ),
]


@dataclass(frozen=True, slots=True)
class ReplaySelection:
    """Options that select what to rebuild."""

    projection: Projections = None
    partition: Annotated[
        list[int] | None, Option(min=0, help="Only this partition of one projection; repeatable. Default: all.")
    ] = None
    outdated: Annotated[
        bool, Option("--outdated", help="Only projections whose stored layout is not this version's.")
    ] = False

    async def plan(self, deployment: Deployment) -> Plan:
        targets = _targets(deployment, self.projection, self.partition)
        return await make_plan(deployment, targets, outdated=self.outdated)


def _targets(
    deployment: Deployment, projections: Sequence[ProjectionName] | None, partitions: Sequence[int] | None = None
) -> list[ReplayTarget]:
    """Return the targets. Raises `BadParameter` for partitions that the projection lacks, or of several."""
    targets = [ReplayTarget(name, partitions or None) for name in projections or PROJECTIONS]
    for partition in partitions or ():
        if len(targets) > 1:
            raise BadParameter("Name one --projection.", param_hint="--partition")
        if partition not in deployment.projections[targets[0].projection].topic.numbers:
            raise BadParameter(f"{targets[0].projection} have no partition {partition}.", param_hint="--partition")
    return targets


@command(app)
async def plan(deployment: Deployment, selection: ReplaySelection) -> Result:
    """Estimate a replay's events, duration and memory. Nothing is changed."""
    return _planned(await selection.plan(deployment))


def _planned(plan: Plan) -> Result:
    return Result(plan, _plan_text(plan), ExitCode.fine_if(plan.fits))


def _plan_text(plan: Plan) -> Iterator[Block]:
    """Yield a row per projection, then duration and memory."""
    yield Rows(
        [
            {
                "projection": part.projection,
                "events": part.events - part.processed,
                "memory": _megabytes(part.memory_bytes),
                "stored layout": part.schema,
                "code layout": part.code_schema,
                "resumes": "-" if part.resumes is None else f"generation {part.resumes}",
                "live": ", ".join(map(str, part.live)),
                "others": part.kept,
            }
            for part in plan.parts
        ]
    )
    if not plan.parts:
        yield "There is nothing to rebuild."
        return
    events = sum(part.events - part.processed for part in plan.parts)
    yield f"{events:,} events, about {plan.seconds:,.0f} s at {plan.events_per_s:,.0f} per second."
    free = _megabytes(plan.free_bytes)
    yield f"Memory: {_megabytes(plan.memory_bytes)} more until the former views are dropped; {free} are free."
    if plan.fits:
        yield f"`tally replay run {_options(plan)}--execute` runs it; voting and reading continue."
    else:
        yield (
            "There is not enough memory. Drop other generations (`tally replay drop`), or give Valkey more memory."
        )


def _options(plan: Plan) -> str:
    """Return the options that select the planned projections and partitions."""
    projections = "".join(f"--projection {part.projection} " for part in plan.parts)
    if len(plan.parts) == len(PROJECTIONS):
        projections = ""
    return projections + "".join(f"--partition {number} " for number in plan.parts[0].partitions or ())


@command(app)
async def run(
    deployment: Deployment,
    selection: ReplaySelection,
    accept: Accept = False,
    parallel: Annotated[int, Option(min=1, help="Partitions processed in parallel.")] = 16,
    execute: Execute = False,
) -> Result:
    """Rebuild views as a new generation (copy), verify it, and swap it in for readers.

    Rebuilds all contests of the partitions. Run it again to resume after an interruption. The former generation is
    kept up to date, so `tally replay rollback` restores it at once. Every batch is therefore processed twice until
    `tally replay drop`, the next replay, or the end of a day.
    """
    planned = await selection.plan(deployment)
    if not execute or not planned.fits or not planned.parts:
        return _planned(planned)
    rebuilt: list[Rebuilt] = []
    for part in planned.parts:
        await record_action(deployment, "views rebuilt", projection=part.projection, accept_differences=accept)
        job = Job(deployment, ReplayTarget(part.projection, part.partitions), parallel=parallel)
        rebuilt.append(await with_titles(deployment, await job.run(accept=accept)))
        if part is not planned.parts[-1]:
            deployment.progress.note(_line(rebuilt[-1]))
    text = [block for done in rebuilt for block in rebuilt_text(done)]
    return Result({"rebuilt": rebuilt}, text, ExitCode.fine_if(all(done.swapped for done in rebuilt)))


async def with_titles(deployment: Deployment, done: Rebuilt) -> Rebuilt:
    """Add the titles of the contests that change or differ."""
    done.verified.titles = await titles_by_key(deployment, done.verified.contests)
    if done.verified.report is not None:
        done.verified.report.titles = done.verified.titles
    return done


def _line(done: Rebuilt) -> str:
    """Return the result of a replay in one line."""
    resumed = ", resumed" if done.resumed else ""
    return (
        f"{done.projection}: generation {done.generation}{resumed}: {done.events:,} events in "
        f"{done.seconds:.1f} s ({done.events_per_s:,.0f} per second)."
    )


def rebuilt_text(done: Rebuilt) -> Iterator[Block]:
    """Yield the result of a replay: events, differences, and the generation that readers see."""
    yield _line(done)
    report = done.verified.report
    if report is not None:
        yield from figures_text(report)
        yield from differences_text(report)
    for one in done.verified.differences[:MOST_SHOWN]:
        yield f"differs from the current view: partition {one.partition} {one.key} {one.field}"
    for change in done.verified.changes[:MOST_SHOWN]:
        titles = done.verified.titles
        contest = named(change.contest, titles.get(change.contest, ""))
        participant = named(change.participant, titles.get(change.participant, "")) or "total"
        yield (
            f"changes: contest {contest}, {participant}: "
            f"{change.before.count:,} -> {change.after.count:,} votes, "
            f"{change.before.unique:,} -> {change.after.unique:,} voters"
        )
    if done.swapped:
        yield f"Readers see generation {done.generation}. `tally replay rollback` restores the former one."
    elif report is not None and report.equal:
        where = ", ".join(map(str, sorted({one.partition for one in done.verified.differences})))
        yield (
            "It equals the log, but was built with other fences (records that settle earlier votes) than the "
            f"current view, since one was in quarantine: partition {where}. Accepted votes might no longer count, "
            "so it was not swapped in. --accept-differences swaps it in, and voting there resumes after a new "
            "fence; `tally replay drop` deletes it."
        )
    elif report is not None:
        yield "It does not equal the log and was not swapped in. `tally replay drop` deletes it."
    else:
        yield (
            "It differs from the current view and was not swapped in: --accept-differences swaps it in, "
            "`tally replay drop` deletes it."
        )


@command(app)
async def rollback(
    deployment: Deployment, projection: Projections = None, accept: Accept = False, execute: Execute = False
) -> Result:
    """Swap the former views back in, undoing the latest replay. Exit code 0 if there is nothing to roll back."""
    await load_functions(deployment.valkey)
    undone, text = [], []
    for target in _targets(deployment, projection):
        name = target.projection
        if execute:
            await record_action(deployment, "replay rolled back", projection=name, accept_differences=accept)
        number, swaps = await roll_back(deployment.projections[target.projection], execute=execute, accept=accept)
        if number is not None:
            former, partitions = sorted({*swaps.values()}), len(swaps)
            undone.append({"projection": name, "generation": number, "former": former, "partitions": partitions})
            numbers = f"{number} -> {', '.join(map(str, former))}"
            text.append(f"{name}: generation {numbers} in {plural(partitions, 'partition')}")
    done, to = "Readers see the former generations.", "let readers see the former generations"
    nothing = "" if undone else "There is nothing to roll back."
    return Result.change({"rolled_back": undone}, text, execute, done, to, nothing)


@command(app)
async def drop(
    deployment: Deployment,
    projection: Projections = None,
    generation: Annotated[int | None, Option(help="Number of the generation, from `tally status`.")] = None,
    execute: Execute = False,
) -> Result:
    """Delete generations that readers do not use: all of them, or the given one. This frees their memory."""
    await load_functions(deployment.valkey)
    dropped: list[tuple[ProjectionName, int, int]] = []
    keys = 0
    for target in _targets(deployment, projection):
        name, generations = target.projection, deployment.projections[target.projection]
        if execute:
            await record_action(deployment, "generations dropped", projection=name, generation=generation)
        for partition, found in (await generations.read_all()).items():
            for number, other in found.others.items():
                if generation in (None, number) and other.state is not State.LOST:
                    dropped.append((name, partition, number))
                    if execute:
                        await generations.drop(partition, number)
        keys += await generations.sweep() if execute else 0
    if generation is not None and not dropped:
        raise NotFound(f"No generation {generation} can be dropped: it does not exist, or readers use it.")
    text = [f"{name}: generation {number}" for name, number in sorted({(row[0], row[2]) for row in dropped})]
    rows = [dict(zip(("projection", "partition", "generation"), row, strict=True)) for row in dropped]
    members = {"dropped": rows, "keys": keys}
    nothing = "" if dropped or keys else "There is nothing to drop."
    return Result.change(members, text, execute, f"Dropped: {keys:,} keys.", "drop them", nothing)


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB"
