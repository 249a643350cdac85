"""What plans and replays say to a person."""

from rich.console import Console
from rich.table import Table

from services.cli.commands.replay.job import Rebuilt
from services.cli.commands.replay.plan import Plan
from services.cli.commands.verify import show_differences, show_figures

MOST_SHOWN = 30


def show_plan(plan: Plan) -> None:
    """A table on a terminal, a line a projection elsewhere; then what it costs."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    names = "what", "events", "memory", "layout stored", "of the code", "goes on with", "live", "others"
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
    console.out(f"{events:,} events, some {plan.seconds:,.0f} s at {plan.events_per_s:,.0f} a second.")
    free = _megabytes(plan.free_bytes)
    console.out(
        f"Memory: {_megabytes(plan.memory_bytes)} more until the former views are dropped; {free} are free."
    )
    if plan.fits:
        console.out("`tally replay run --execute` does it; voting and reading go on.")
    else:
        console.out("That does not fit. Drop other generations (`tally replay drop`), or give Valkey more memory.")


def show_rebuilt(done: Rebuilt) -> None:
    """What was folded and found, and what is read now."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    resumed = ", gone on with" if done.resumed else ""
    console.out(
        f"{done.target.title}: generation {done.number}{resumed}: {done.events:,} events in {done.seconds:.1f} s "
        f"({done.events_per_s:,.0f} a second)."
    )
    if done.verdict is None:
        console.out(
            f"It is not read: look at it with --generation {done.number} of `tally count` and `tally verify`."
        )
        return
    if done.verdict.report is not None:
        show_figures(done.verdict.report, console)
        show_differences(done.verdict.report, console)
    for differing in done.verdict.differing[:MOST_SHOWN]:
        console.out(
            f"differs from what is read now: partition {differing.partition} {differing.key} {differing.field}"
        )
    for change in done.verdict.changes[:MOST_SHOWN]:
        console.out(
            f"changes: contest {change.contest} {change.participant or 'in all'}: "
            f"{change.before.count:,} -> {change.after.count:,} votes, "
            f"{change.before.unique:,} -> {change.after.unique:,} voters"
        )
    if done.swapped:
        console.out(f"Readers see generation {done.number}. `tally replay rollback` brings the former one back.")
    elif done.verdict.report is not None and done.verdict.report.equal:
        where = ", ".join(
            str(partition) for partition in sorted({one.partition for one in done.verdict.differing})
        )
        console.out(
            "It equals the log, but was folded by other fences (records that end doubt about earlier votes) than "
            f"what is read now, since one of them was in quarantine: partition {where}. Accepted votes could "
            "count no more, so it is not read. --accept-differences has it read, and voting there goes on after a "
            "new fence; `tally replay drop` gives it up."
        )
    elif done.verdict.report is not None:
        console.out("It does not equal the log, and is not read. `tally replay drop` gives it up.")
    else:
        console.out(
            "It differs from what is read now, and is not read: --accept-differences has it read, "
            "`tally replay drop` gives it up."
        )


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB"
