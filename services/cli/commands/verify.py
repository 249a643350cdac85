"""`tally verify`: compares the views with an independent fold of the log."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from libs.audit.comparison import compare
from libs.audit.difference import Difference
from libs.audit.difference_rows import name_of
from libs.audit.equations import SourceRow, VotesRow
from libs.audit.generation_counts import scope_of
from libs.audit.log_fold import without_gc
from libs.audit.report import Report
from libs.deployment.deployment import Deployment
from libs.tally.voter_ledger import VoteStatus
from libs.views.catalogue import CatalogueViews
from libs.views.functions import open_valkey
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.progress import ProgressBar
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run

__all__ = ["Report", "compare", "verify"]

MOST_SHOWN = 30


def verify(
    contest: Annotated[str | None, typer.Argument(help="Key of one contest; default: all.")] = None,
    only: Annotated[str | None, typer.Option("--contest", help="Same as the argument.")] = None,
    generation: Annotated[
        int | None,
        typer.Option("--generation", help="Verify this generation (copy of the views) that a replay built."),
    ] = None,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Fold the log independently and compare every view with it at its exact position; voting may continue.

    Also prints the ledger's equations: the outcomes of all vote ids in the log and of external sources' reports. A
    ballot's id is counted at each participant that it names.
    """
    if None not in (contest, only) and contest != only:
        raise typer.BadParameter("Two different contests are given; give one or none.", param_hint="--contest")
    contest = contest or only

    async def work() -> ExitCode:
        stack = find_deployment(data_dir)
        scope = contest if generation is None else await scope_of(stack, generation) or contest
        with ProgressBar("Folding the log", enabled=not as_json) as progress, without_gc():
            report = await compare(stack, scope, progress=progress, generation=generation)
        if contest is not None and not report.contests and not await _exists(stack, contest):
            typer.echo(f"Error: There is no contest {contest}, neither in the log nor in the views.", err=True)
            return ExitCode.BAD_USAGE
        if as_json:
            print_json(report.as_json())
        else:
            show(report)
        return ExitCode.FINE if report.equal else ExitCode.PROBLEM

    run(work())


def show(report: Report) -> None:
    """Print figures, positions, differences and the result."""
    console = Console(highlight=False, soft_wrap=True)
    show_figures(report, console)
    _show_ledger(report, console)
    _show_positions(report, console)
    show_differences(report, console)
    if report.equal:
        console.print("The views equal the fold of the log.", style="bold green")
    elif not report.difference_count:
        console.print("The ledger's equations do not hold: the fold itself is wrong.", style="bold red")
    else:
        console.print(f"The views differ from the log: {report.difference_count:,} differences.", style="bold red")


def show_figures(report: Report, console: Console) -> None:
    """Print the number of folded events and the equation of vote ids."""
    console.print(
        f"Folded {report.events:,} events of {len(report.positions)} partitions "
        f"in {report.seconds:.1f} s ({report.events_per_s:,.0f} events/s)."
    )
    outcomes = " + ".join(f"{count:,} {name}" for name, count in report.outcomes.items())
    console.print(f"Vote ids: {report.ids:,} distinct {'=' if report.balanced else '≠'} {outcomes}.")
    console.print(
        f"Records that changed nothing: {report.fenced:,} fenced, {report.duplicates:,} duplicates, "
        f"{report.quarantined:,} quarantined."
    )


def _show_ledger(report: Report, console: Console) -> None:
    """Print the equations by contest; for one with many participants only those that do not hold."""
    for key, totals in sorted(report.contests.items()):
        rows = totals.rows
        few = len(rows) <= MOST_SHOWN
        shown = [row for row in rows if few or not row[2].balanced]
        if shown and console.is_terminal:
            table = Table(
                "participant", "source", "equation", title=f"Contest {key}", title_justify="left", box=None
            )
            for participant, source, row in shown:
                style = None if row.balanced else "red"
                table.add_row(participant or "-", source, _equation(row), style=style)
            console.print(table, soft_wrap=False)
        else:
            for participant, source, row in shown:
                console.out(f"contest {key}: {participant or '-'} {source}: {_equation(row)}")
        if not few:
            fine = len(rows) - len(shown)
            console.out(f"contest {key}: the equations of {fine:,} participants and sources hold (see --json).")


def _equation(row: VotesRow | SourceRow) -> str:
    if isinstance(row, VotesRow):
        left, right = f"{row.ids:,} vote ids", [(row.outcomes[status], name_of(status)) for status in VoteStatus]
    else:
        left, right = f"{row.reported:,} reported", [(row.counted, "counted")]
        right += [(votes, f"held: {reason}") for reason, votes in row.held.items()]
    return f"{left} {'=' if row.balanced else '≠'} {' + '.join(f'{count:,} {name}' for count, name in right)}"


def _show_positions(report: Report, console: Console) -> None:
    if console.is_terminal:
        offsets = " ".join(f"{partition}:{at.offset}" for partition, at in sorted(report.positions.items()))
        console.print(f"Positions: {offsets}", style="dim")
    else:
        for partition, at in sorted(report.positions.items()):
            console.print(f"partition {partition}: {at.log_id or '-'} {at.offset}")


def show_differences(report: Report, console: Console) -> None:
    """Print the first `MOST_SHOWN` differences."""
    shown = report.differences[:MOST_SHOWN]
    if shown and console.is_terminal:
        table = Table("partition", "contest", "participant", "source", "what", "log says", "view says")
        for difference in shown:
            table.add_row(*_cells(difference))
        console.print(table, soft_wrap=False)
    else:
        for difference in shown:
            partition, contest, participant, source, what, log, view = _cells(difference)
            console.print(
                f"difference: partition {partition}, contest {contest or '-'}, participant {participant or '-'}, "
                f"source {source or '-'}: {what}: log says {log}, view says {view}"
            )
    rest = report.difference_count - len(shown)
    if rest:
        console.print(f"... and {rest:,} more (all of the first thousand with --json).")


def _cells(difference: Difference) -> tuple[str, ...]:
    where = str(difference.partition), difference.contest, difference.participant, difference.source
    return (*where, difference.what, difference.log, difference.view)


async def _exists(stack: Deployment, contest: str) -> bool:
    valkey = open_valkey(stack.valkey)
    try:
        return await CatalogueViews(valkey, stack.namespace).find_owner("contests", contest) is not None
    finally:
        await valkey.close()
