"""Messages that the demo prints before and after the table."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from libs.contracts.dataclass_json import HIDDEN
from services.cli.commands.demo.check import CheckResult
from services.cli.commands.demo.sample_contest import Sample
from services.cli.commands.demo.voter_responses import Answers
from services.cli.commands.verify import differences_text, figures_text
from services.cli.deployment_discovery import DATA_DIR
from services.cli.render import Block

MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Responses to the simulated voters, and the comparison of the counts with them and with the log."""

    base_url: str
    contest_key: str
    answers: Answers
    check: CheckResult
    titles: dict[str, str] = field(metadata=HIDDEN)


def introduce(console: Console, stack: dict[str, Any], sample: Sample, data_dir: Path, page: str) -> None:
    """Print the URLs, the key, and commands to paste into another terminal; lines are not wrapped."""
    base, contest = stack["base_url"], f"{stack['base_url']}/contests/{sample.key}"
    where = "" if data_dir == DATA_DIR else f" --data-dir {shlex.quote(str(data_dir))}"
    vote = f'{{"participant_key": "{next(iter(sample.titles))}", "voter_id": "me"}}'
    bearer = '-H "Authorization: Bearer $TALLY_API_KEY"'
    lines = [
        f"[bold]Tallykeeper[/] runs at [bold]{escape(base)}[/]",
        f"Vote yourself: [bold]{escape(page)}/?contest={sample.key}[/]",
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


def demo_text(result: DemoResult) -> Iterator[Block]:
    """Yield the figures and differences, and the result last."""
    answers, check = result.answers, result.check
    yield (
        f"\nAccepted {check.vote_ids_accepted:,} votes, "
        f"confirmed {answers.replayed:,} repeated ones and refused {sum(answers.refused.values()):,}; "
        f"{sum(answers.sent_again.values()):,} requests were retried. "
        f"Response times: {answers.p50_ms:.0f} ms (p50), {answers.p99_ms:.0f} ms (p99)."
    )
    if check.vote_ids_in_doubt:
        yield Text(f"{check.vote_ids_in_doubt:,} votes had no final response at the end.", style="yellow")
    if check.vote_ids_of_others:
        yield f"{check.vote_ids_of_others:,} votes came from others, perhaps from you."
    if not check.processed_to_the_end:
        yield Text("The views did not reach the end of the log in time.", style="red")
    yield from figures_text(check.verify)
    yield from differences_text(check.verify)
    yield from _list("accepted, but not counted", check.accepted_but_not_counted)
    yield from _list("counted, but refused", check.counted_but_refused)
    yield from _list("counted differently", [_titled(text, result.titles) for text in check.miscounted])
    if check.equal:
        equal = Text("The counts equal those computed from the log:", style="bold green")
        accepted = check.vote_ids_accepted
        ids = f" {accepted:,} vote ids accepted, {accepted:,} counted, {check.votes_by_the_log:,} votes."
        yield equal.append(ids, style="not bold default")
    else:
        yield Text("The counts do not equal those computed from the log.", style="bold red")


def _list(title: str, rows: list[str]) -> Iterator[Block]:
    if rows:
        yield Text(f"{len(rows):,} {title}:", style="red")
        yield from (f"  {row}" for row in rows[:MOST_SHOWN])


def _titled(text: str, titles: dict[str, str]) -> str:
    key, _, rest = text.partition(" ")
    return f"{titles.get(key, key)} {rest}"
