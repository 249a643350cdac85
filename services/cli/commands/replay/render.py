"""Renders plans and results of replays as text."""

from collections.abc import Iterator

from services.cli.commands.replay.job import Rebuilt
from services.cli.commands.replay.plan import Plan
from services.cli.commands.replay.projections import ALL
from services.cli.commands.verify import differences_text, figures_text
from services.cli.contest_lookup import named
from services.cli.render import Block, Rows

MOST_SHOWN = 30


def plan_text(plan: Plan) -> Iterator[Block]:
    """Yield a row per projection, then duration and memory."""
    yield Rows(
        [
            {
                "projection": part.target.title,
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
    """Return the arguments that select the planned targets."""
    targets = [part.target for part in plan.parts]
    if targets[0].contest is not None:
        return f"{targets[0].contest} "
    if len(targets) == len(ALL):
        return ""
    return "".join(f"--projection {target.name} " for target in targets)


def rebuilt_line(done: Rebuilt) -> str:
    """Return the result of a replay in one line."""
    resumed = ", resumed" if done.resumed else ""
    return (
        f"{done.target.title}: generation {done.generation}{resumed}: {done.events:,} events in "
        f"{done.seconds:.1f} s ({done.events_per_s:,.0f} per second)."
    )


def rebuilt_text(done: Rebuilt) -> Iterator[Block]:
    """Yield the result of a replay: events, differences, and the generation that readers see."""
    yield rebuilt_line(done)
    if done.verified is None:
        yield f"Readers do not see it: use --generation {done.generation} of `tally count` and `tally verify`."
        return
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


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB"
