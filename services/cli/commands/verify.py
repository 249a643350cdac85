"""`tally verify`: compares the views with an independent fold of the log."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated

from rich.text import Text
from typer import Option

from libs.audit.comparison import compare_in_parallel
from libs.audit.log_fold import Difference
from libs.audit.report import SourceBalance, VerificationReport, VotesRow
from libs.deployment.deployment import Deployment
from services.cli.command_decorator import OneContest, command, named, titles_by_key
from services.cli.output import Block, ExitCode, Result, Rows, plural

MOST_SHOWN = 30


def _text(report: VerificationReport) -> Iterator[Block]:
    """Yield figures, equations, positions, differences and the result."""
    yield from figures_text(report)
    yield from _ledger(report)
    offsets = " ".join(f"{partition}:{at.offset}" for partition, at in sorted(report.positions.items()))
    yield Text(f"Positions: {offsets}", style="dim")
    yield from differences_text(report)
    if report.equal:
        yield Text("The views equal the log.", style="bold green")
    elif not report.difference_count:
        yield Text("The ledger's equations do not hold: the computation itself is wrong.", style="bold red")
    else:
        found = plural(report.difference_count, "difference")
        yield Text(f"The views differ from the log: {found}.", style="bold red")
        yield "`tally replay run --projection votes --execute` rebuilds them from the log; voting continues."


@command()
async def verify(
    deployment: Deployment,
    contest: OneContest = None,
    processes: Annotated[
        int | None,
        Option(min=1, help="Processes that compare; default: one a processor, at most 4; for a small log 1."),
    ] = None,
) -> Result:
    """Recompute every view from the log and compare the two at their exact positions; voting may continue.

    Also prints the ledger's equations: the outcomes of all vote ids in the log and of external sources' reports. A
    ballot's id is counted at each participant that it names.
    """
    report = await compare_in_parallel(deployment, contest, processes=processes)
    if contest is not None and not report.contests:  # A deleted contest is still in the log.
        await deployment.catalogue.owner_of(contest)
    report.titles = await titles_by_key(deployment, report.contests)
    return Result(report, _text(report), ExitCode.fine_if(report.equal))


def figures_text(report: VerificationReport) -> Iterator[Block]:
    """Yield the number of folded events and the equation of vote ids."""
    yield (
        f"Read {report.events:,} events of {len(report.positions)} partitions "
        f"in {report.seconds:.1f} s ({report.events_per_s:,.0f} events/s)."
    )
    outcomes = " + ".join(f"{count:,} {name}" for name, count in report.outcomes.items())
    yield f"Vote ids: {report.ids:,} distinct {'=' if report.balanced else '≠'} {outcomes}."
    yield (
        f"Records that changed nothing: {report.fenced:,} fenced, {report.duplicates:,} duplicates, "
        f"{report.quarantined:,} quarantined."
    )


def _ledger(report: VerificationReport) -> Iterator[Block]:
    """Yield the equations by contest; for one with many participants only those that do not hold."""
    for key, totals in sorted(report.contests.items()):
        rows = totals.rows()
        few = len(rows) <= MOST_SHOWN
        shown = [row for row in rows if few or not row[2].balanced]
        contest = named(key, report.titles.get(key, ""))
        yield f"Contest {contest}"
        yield Rows([_equation(report.titles, *row) for row in shown])
        if not few:
            fine = len(rows) - len(shown)
            yield f"Contest {contest}: the equations of {fine:,} participants and sources hold (see --json)."


def _difference(titles: Mapping[str, str], one: Difference) -> dict[str, object]:
    title = titles.get(one.participant or one.contest, "")
    return {"difference": one.what, **asdict(one), "title": title} | {"what": ""}


def _equation(
    titles: Mapping[str, str], participant: str, source: str, row: VotesRow | SourceBalance
) -> dict[str, object]:
    if isinstance(row, VotesRow):
        left, right = plural(row.ids, "vote id"), [(count, name) for name, count in row.outcomes.items()]
    else:
        left, right = f"{row.reported:,} reported", [(row.counted, "counted")]
        right += [(votes, f"held: {reason}") for reason, votes in row.held.items()]
    text = f"{left} {'=' if row.balanced else '≠'} {' + '.join(f'{count:,} {name}' for count, name in right)}"
    equation = Text(text, style="" if row.balanced else "red")
    title = titles.get(participant, "")
    return {"participant": participant or "-", "title": title, "source": source, "equation": equation}


def differences_text(report: VerificationReport) -> Iterator[Block]:
    """Yield the first `MOST_SHOWN` differences."""
    shown = report.differences[:MOST_SHOWN]
    yield Rows([_difference(report.titles, one) for one in shown])
    rest = report.difference_count - len(shown)
    if rest:
        yield f"... and {rest:,} more (all of the first thousand with --json)."
