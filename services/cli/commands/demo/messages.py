"""Messages that the demo prints before and after the table."""

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
    """Print the URLs, the key, and commands to paste into another terminal; lines are not wrapped."""
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
        "[dim]or kill the projector; no vote is lost or counted twice:[/]",
        f"  kill -9 {stack['pids'].get('projector', '')}; tally status{escape(where)}",
        "",
    ]
    for line in lines:
        console.print(line, soft_wrap=True)


def conclude(console: Console, result: CheckResult, results: AcceptedResults, sample: Sample) -> None:
    """Print the figures and differences, and the result last."""
    p50, p99 = results.all_times()
    whole_lines = not console.is_terminal
    console.print(
        f"\nAccepted {len(results.accepted):,} votes, "
        f"confirmed {results.replayed:,} repeated ones and refused {sum(results.refusals.values()):,}; "
        f"{sum(results.retries.values()):,} requests were retried. "
        f"Response times: {p50 * 1000:.0f} ms (p50), {p99 * 1000:.0f} ms (p99).",
        soft_wrap=whole_lines,
    )
    if result.in_doubt:
        console.print(f"{result.in_doubt:,} votes had no final response at the end.", style="yellow")
    if result.of_others:
        console.print(f"{result.of_others:,} votes came from others, perhaps from you.")
    if not result.folded:
        console.print("The views did not reach the end of the log in time.", style="red")
    show_figures(result.report, console)
    show_differences(result.report, console)
    _list(console, "accepted, but not counted", result.lost)
    _list(console, "counted, but refused", result.unasked)
    _list(console, "counted differently", [_titled(text, sample) for text in result.miscounted])
    if result.good:
        console.print(
            f"[bold green]The counts equal those computed from the log:[/] {result.accepted:,} vote ids accepted, "
            f"{result.accepted:,} counted, {result.votes:,} votes.",
            soft_wrap=whole_lines,
        )
    else:
        console.print("[bold red]The counts do not equal those computed from the log.[/]")


def _list(console: Console, title: str, rows: list[str]) -> None:
    if rows:
        console.print(f"{len(rows):,} {title}:", style="red")
        for row in rows[:MOST_SHOWN]:
            console.print(f"  {escape(row)}", soft_wrap=True)


def _titled(text: str, sample: Sample) -> str:
    key, _, rest = text.partition(" ")
    return f"{sample.titles.get(key, key)} {rest}"
