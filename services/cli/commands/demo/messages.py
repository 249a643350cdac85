"""What the demo says before and after the table."""

import shlex
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from services.cli.commands.demo.check import CheckResult
from services.cli.commands.demo.results import AcceptedResults
from services.cli.commands.demo.sample import Sample
from services.cli.commands.verify import show_differences, show_figures
from services.cli.discovery import DATA_DIR

MOST_SHOWN = 10


def introduce(console: Console, stack: dict[str, Any], sample: Sample, data_dir: Path) -> None:
    """The address, the key, and lines to paste into another terminal; no line is wrapped."""
    base, contest = stack["base_url"], f"{stack['base_url']}/contests/{sample.key}"
    where = "" if data_dir == DATA_DIR else f" --data-dir {shlex.quote(str(data_dir))}"
    vote = f'{{"participant_key": "{next(iter(sample.titles))}", "voter_id": "me"}}'
    bearer = '-H "Authorization: Bearer $TALLY_API_KEY"'
    lines = [
        f"[bold]Tallykeeper[/] runs at [bold]{escape(base)}[/]",
        f"Dashboard: [bold]{escape(stack['dashboard_url'])}/contests/{sample.key}[/]",
        f"  [dim]log in with the key below, or by[/] tally dashboard {sample.key}{escape(where)}",
        "",
        "[dim]In another terminal, cast a vote and read the count:[/]",
        f"  export TALLY_API_KEY={escape(stack['api_key'])}",
        f"  curl -X POST {contest}/votes \\",
        f"    {bearer} \\",
        "    -H 'Content-Type: application/json' \\",
        f"    -d {escape(shlex.quote(vote))}",
        f"  curl {contest}/vote_updates/ \\",
        f"    {bearer}",
        "[dim]or take the projector away; nothing is lost, nothing counts twice:[/]",
        f"  kill -9 {stack['pids'].get('projector', '')}; tally status{escape(where)}",
        "",
    ]
    for line in lines:
        console.print(line, soft_wrap=True)


def conclude(console: Console, verdict: CheckResult, books: AcceptedResults, sample: Sample) -> None:
    """The verdict last, what it rests on before."""
    p50, p99 = books.all_times()
    whole_lines = not console.is_terminal
    console.print(
        f"\nVoters were told {len(books.accepted):,} times that their vote counts, "
        f"{books.replayed:,} times that it did already, {sum(books.refusals.values()):,} times that it cannot; "
        f"{sum(books.retries.values()):,} requests were sent again. "
        f"Answers took {p50 * 1000:.0f} ms (p50), {p99 * 1000:.0f} ms (p99).",
        soft_wrap=whole_lines,
    )
    if verdict.in_doubt:
        console.print(f"{verdict.in_doubt:,} votes were still in doubt at the end.", style="yellow")
    if verdict.of_others:
        console.print(f"{verdict.of_others:,} votes came from elsewhere: yours?")
    if not verdict.folded:
        console.print("The views did not come to the log's end in time.", style="red")
    show_figures(verdict.report, console)
    show_differences(verdict.report, console)
    _list(console, "accepted, but not counted", verdict.lost)
    _list(console, "counted, but refused", verdict.unasked)
    _list(console, "counted differently", [_titled(text, sample) for text in verdict.miscounted])
    if verdict.good:
        console.print(
            f"[bold green]Counts equal the fold of the log:[/] {verdict.accepted:,} vote ids accepted, "
            f"{verdict.accepted:,} counted, {verdict.votes:,} votes.",
            soft_wrap=whole_lines,
        )
    else:
        console.print("[bold red]Counts do not equal the fold of the log.[/]")


def _list(console: Console, what: str, rows: list[str]) -> None:
    if rows:
        console.print(f"{len(rows):,} {what}:", style="red")
        for row in rows[:MOST_SHOWN]:
            console.print(f"  {escape(row)}", soft_wrap=True)


def _titled(text: str, sample: Sample) -> str:
    key, _, rest = text.partition(" ")
    return f"{sample.titles.get(key, key)} {rest}"
