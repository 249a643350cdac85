"""Renders plans and results of replays as text."""

from rich.console import Console
from rich.table import Table

from services.cli.commands.replay.job import Rebuilt
from services.cli.commands.replay.plan import Plan
from services.cli.commands.verify import show_differences, show_figures

MOST_SHOWN = 30


def show_plan(plan: Plan) -> None:
    """Print a table on a terminal, otherwise one line per projection; then duration and memory."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    names = "projection", "events", "memory", "stored_layout", "code_layout", "resumes", "live", "others"
    rows = [
        (
            part.target.title,
            f"{part.events - part.folded:,}",
            _megabytes(part.memory_bytes),
            str(part.schema),
            str(part.code_schema),
            "-" if part.resumes is None else f"generation {part.resumes}",
            ", ".join(map(str, part.live)),
            str(part.kept),
        )
        for part in plan.parts
    ]
    if console.is_terminal and rows:
        table = Table(*names, box=None, header_style="dim")
        for row in rows:
            table.add_row(*row)
        console.print(table, soft_wrap=False)
    for row in rows if not console.is_terminal else ():
        console.out(" ".join(f"{name}={value}" for name, value in zip(names, row, strict=True)))
    if not rows:
        console.out("There is nothing to rebuild.")
        return
    events = sum(part.events - part.folded for part in plan.parts)
    console.out(f"{events:,} events, about {plan.seconds:,.0f} s at {plan.events_per_s:,.0f} per second.")
    free = _megabytes(plan.free_bytes)
    console.out(
        f"Memory: {_megabytes(plan.memory_bytes)} more until the former views are dropped; {free} are free."
    )
    if plan.fits:
        console.out("`tally replay run --execute` runs it; voting and reading continue.")
    else:
        console.out(
            "There is not enough memory. Drop other generations (`tally replay drop`), or give Valkey more memory."
        )


def show_rebuilt(done: Rebuilt) -> None:
    """Print the result of a replay: events, differences, and the generation that readers see."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    resumed = ", resumed" if done.resumed else ""
    console.out(
        f"{done.target.title}: generation {done.number}{resumed}: {done.events:,} events in {done.seconds:.1f} s "
        f"({done.events_per_s:,.0f} per second)."
    )
    if done.verification is None:
        console.out(f"Readers do not see it: use --generation {done.number} of `tally count` and `tally verify`.")
        return
    if done.verification.report is not None:
        show_figures(done.verification.report, console)
        show_differences(done.verification.report, console)
    for differing in done.verification.differing[:MOST_SHOWN]:
        console.out(
            f"differs from the current view: partition {differing.partition} {differing.key} {differing.field}"
        )
    for change in done.verification.changes[:MOST_SHOWN]:
        console.out(
            f"changes: contest {change.contest} {change.participant or 'total'}: "
            f"{change.before.count:,} -> {change.after.count:,} votes, "
            f"{change.before.unique:,} -> {change.after.unique:,} voters"
        )
    if done.swapped:
        console.out(f"Readers see generation {done.number}. `tally replay rollback` restores the former one.")
    elif done.verification.report is not None and done.verification.report.equal:
        where = ", ".join(
            str(partition) for partition in sorted({one.partition for one in done.verification.differing})
        )
        console.out(
            "It equals the log, but was folded with other fences (records that settle earlier votes) than the "
            f"current view, since one was in quarantine: partition {where}. Accepted votes might no longer count, "
            "so it was not swapped in. --accept-differences swaps it in, and voting there resumes after a new "
            "fence; `tally replay drop` deletes it."
        )
    elif done.verification.report is not None:
        console.out("It does not equal the log and was not swapped in. `tally replay drop` deletes it.")
    else:
        console.out(
            "It differs from the current view and was not swapped in: --accept-differences swaps it in, "
            "`tally replay drop` deletes it."
        )


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB"
