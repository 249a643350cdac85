"""`tally demo`: starts the stack, sends votes, waits for the responses, and checks the counts."""

import asyncio
import shlex
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
from rich.console import Console
from rich.markup import escape
from rich.text import Text
from typer import Exit, Option

from libs.concurrency.tasks import becomes_true
from libs.deployment.deployment import Deployment
from libs.local_stack.service_process import PARTS
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Report
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap
from services.cli.command_decorator import command
from services.cli.commands.dashboard import open_dashboard
from services.cli.commands.demo.sample_contest import Sample, check_counts, create_sample
from services.cli.commands.demo.screen import LiveMetrics, Screen, shown
from services.cli.commands.demo.voters import AcceptedResults, VoterLoad, VoterPopulation, voters_client
from services.cli.commands.up import StackOptions
from services.cli.commands.verify import differences_text, figures_text
from services.cli.deployment_discovery import DATA_DIR, addresses_in
from services.cli.output import Block, ExitCode, Result, Rows
from services.cli.settings_check import check_environment
from services.cli.voting_page.server import serve_voting_page

SETTLE_S: Final = 60.0
"""Time for the last responses after the voting, and then again for the fold."""
READ_S: Final = 5.0
"""Time to read the final counts."""
LEAST_RATE: Final = 0.8
"""Share of the asked rate below which the machine does not hold it."""
MOST_SHOWN: Final = 10


class Interrupts:
    """Signal handler: an interrupt ends the current `wait`, the next one cancels the creating task."""

    def __init__(self) -> None:
        self._ended = asyncio.Event()
        self._ended.set()
        self._task = asyncio.current_task()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._interrupt)

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait for an interrupt, at most `timeout_s`; a later one then is without effect, the next cancels."""
        self._ended.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()

    def _interrupt(self) -> None:
        if self._ended.is_set() and self._task is not None:
            self._task.cancel()
        self._ended.set()


@command()
async def demo(
    options: StackOptions,
    any_port: Annotated[
        bool, Option("--any-port/--this-port", help="Use any free port if the requested one is in use.")
    ] = True,
    seconds: Annotated[float, Option(min=0, help="Duration of the voting; 0: until Ctrl-C.")] = 60,
    rate: Annotated[float, Option(min=0.1, max=5000, help="Votes per second.")] = 150,
    voters: Annotated[int, Option(min=1, help="Number of signed-in voters.")] = 5000,
    keep: Annotated[bool, Option("--keep", help="Keep running after the voting, until Ctrl-C.")] = False,
    seed: Annotated[int, Option(help="Seed of the random votes; the same seed repeats them.")] = 1,
    as_json: Annotated[
        bool, Option("--json", help="Print the result as one line of JSON; progress goes to stderr.")
    ] = False,
) -> AsyncGenerator[Result, None]:
    """Start everything, simulate voters of all kinds in a sample contest, and check the counts at the end.

    Ctrl-C ends the voting and runs the check, a second one stops at once. Exit code 0: the counts equal those
    computed from the log.
    """
    check_environment()
    console, interrupts = Console(stderr=as_json, highlight=False), Interrupts()
    report = Report(console if console.is_terminal else None)
    settings = StackSettings(data_dir=options.data_dir, gateways=1, projectors=1)
    supervisor = Supervisor(
        settings, bootstrap, port=options.port, any_port=any_port, fresh=options.fresh, report=report
    )
    console.print("Starting Kafka, Valkey and the service on this machine ...")
    try:
        stack = await supervisor.start()
        async with (
            Deployment(addresses_in(stack)) as deployment,
            _client(stack) as client,
            serve_voting_page(stack) as page,
        ):
            sample = await create_sample(client)
            _introduce(console, stack, sample, options.data_dir, page)
            if not options.no_browser and console.is_terminal:
                await open_dashboard(stack, sample.key)
            results, population = AcceptedResults(), VoterPopulation(list(sample.titles), voters, seed)
            metrics = LiveMetrics(client, sample.key, deployment)
            screen = Screen(sample, metrics, results, stack["base_url"], seconds)
            async with metrics.watching(), shown(console, screen):
                async with (
                    voters_client(stack["base_url"], stack["api_key"], results) as phones,
                    VoterLoad(phones, sample.key, population, results, rate) as load,
                ):
                    await interrupts.wait(seconds or None)
                    screen.phase = "waiting for the last responses"
                    await load.settle(SETTLE_S)
                screen.phase = "comparing with the log"
                folded = await becomes_true(metrics.has_folded, SETTLE_S)
                counts = metrics.counts if await becomes_true(metrics.has_final_counts, READ_S) else None
                check = await check_counts(deployment, sample, results, population.ids, counts, folded=folded)
            answers = results.summary() | {"asked_per_s": rate, "sent_per_s": round(load.sent_per_s, 1)}
            members = {
                "base_url": stack["base_url"],
                "contest_key": sample.key,
                "answers": answers,
                "check": check,
            }
            yield Result(members, _text(answers, check, sample.titles), ExitCode.fine_if(check["equal"]))
            if keep:
                console.print("The stack keeps running; Ctrl-C stops it.")
                await interrupts.wait()
    except asyncio.CancelledError:
        console.print("Stopped without the check.")
        for part in PARTS:
            if part.name in supervisor.pids:
                await supervisor.kill(part.name, restart=False)
        raise Exit(ExitCode.PROBLEM) from None
    finally:
        await supervisor.stop()


def _client(stack: dict[str, Any]) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=stack["base_url"],
        headers={"authorization": f"Bearer {stack['api_key']}"},
        timeout=15.0,
        trust_env=False,
    )


def _introduce(console: Console, stack: dict[str, Any], sample: Sample, data_dir: Path, page: str) -> None:
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
        f"  export PATH={escape(shlex.quote(str(Path(sys.executable).parent)))}:$PATH",
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


def _text(answers: dict[str, Any], check: dict[str, Any], titles: dict[str, str]) -> Iterator[Block]:
    """Yield the figures and differences, and the result last."""
    refused, accepted = answers["refused"], check["vote_ids_accepted"]
    yield ""
    yield (
        f"Accepted {accepted:,} votes, confirmed {answers['replayed']:,} repeated ones and refused "
        f"{refused.total():,}; {answers['sent_again'].total():,} requests were retried. "
        f"Response times: {answers['p50_ms']:.0f} ms (p50), {answers['p99_ms']:.0f} ms (p99)."
    )
    if answers["sent_per_s"] < LEAST_RATE * answers["asked_per_s"]:
        yield Text(
            f"{answers['asked_per_s']:,g} votes per second were asked for, {answers['sent_per_s']:,g} reached: "
            "this machine, which also runs the voters, is busy, and so are the response times.",
            style="yellow",
        )
    yield "About a tenth of the votes are refused on purpose: beyond a limit, malformed, or with a reused id."
    yield Rows([{"refused because of": code, "votes": count} for code, count in refused.most_common()])
    if check["vote_ids_in_doubt"]:
        yield Text(f"{check['vote_ids_in_doubt']:,} votes had no final response at the end.", style="yellow")
    if check["vote_ids_of_others"]:
        yield f"{check['vote_ids_of_others']:,} votes came from others, perhaps from you."
    if not check["processed_to_the_end"]:
        yield Text("The views did not reach the end of the log in time.", style="red")
    yield from figures_text(check["verify"])
    yield from differences_text(check["verify"])
    keys_and_rest = (row.partition(" ") for row in check["miscounted"])
    for title, rows in (
        ("accepted, but not counted", check["accepted_but_not_counted"]),
        ("counted, but refused", check["counted_but_refused"]),
        ("counted differently", [f"{titles.get(key, key)} {rest}" for key, _, rest in keys_and_rest]),
    ):
        if rows:
            yield Text(f"{len(rows):,} {title}:", style="red")
            yield from (f"  {row}" for row in rows[:MOST_SHOWN])
    if check["equal"]:
        equal = Text("The counts equal those computed from the log:", style="bold green")
        votes = check["votes_by_the_log"]
        ids = f" {accepted:,} accepted vote ids count, as {votes:,} votes: some have a count above 1."
        yield equal.append(ids, style="not bold default")
    else:
        yield Text("The counts do not equal those computed from the log.", style="bold red")
