"""`tally demo`: starts the stack, sends votes, waits for the responses, and checks the counts."""

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import httpx
import typer
from rich.console import Console

from libs.deployment.deployment import Deployment
from libs.local_stack.service_process import PARTS
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Report
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap
from services.cli.command_decorator import command
from services.cli.commands.dashboard import open_dashboard
from services.cli.commands.demo.sample_contest import CheckResult, Sample, check_counts, create_sample
from services.cli.commands.demo.screen import DemoResult, LiveMetrics, Screen, demo_text, introduce, shown
from services.cli.commands.demo.voters import MOST_IN_FLIGHT, AcceptedResults, VoterLoad, VoterPopulation
from services.cli.deployment_discovery import DATA_DIR, addresses_in
from services.cli.exit_codes import ExitCode, check_environment
from services.cli.voting_page.server import serve_voting_page

T = TypeVar("T")


class Interrupts:
    """Signal handler: the first interrupt requests an orderly end, the second cancels the creating task."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self._task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._interrupt)

    async def run_unless_interrupted(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of `work`; None if an interrupt comes first, with the work cancelled."""
        task = asyncio.create_task(work)
        requested = asyncio.create_task(self.requested.wait())
        try:
            await asyncio.wait({task, requested}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            requested.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        return None if task.cancelled() else task.result()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait for the next interrupt, at most `timeout_s`."""
        self.requested.clear()
        await self.wait_on(timeout_s)

    async def wait_on(self, timeout_s: float | None) -> None:
        """Wait for an interrupt like `wait`, but return at once if one has come already."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.requested.wait()
        except TimeoutError:
            return

    def _interrupt(self) -> None:
        if self.requested.is_set() and self._task is not None:
            self._task.cancel()
        self.requested.set()


SETTLE_S: Final = 60.0
"""Time for the last responses after the voting, and then again for the fold."""


@command(text=demo_text, is_fine=lambda result: result.check.equal)
async def demo(
    data_dir: Annotated[
        Path,
        typer.Option(envvar="TALLY_DATA_DIR", help="Data directory as for `tally up`; the demo adds a contest."),
    ] = DATA_DIR,
    port: Annotated[
        int, typer.Option(envvar="TALLY_PORT", min=0, max=65535, help="HTTP port of the gateway.")
    ] = 8080,
    any_port: Annotated[
        bool, typer.Option("--any-port/--this-port", help="Use any free port if the requested one is in use.")
    ] = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the data of earlier runs first.")] = False,
    seconds: Annotated[float, typer.Option(min=0, help="Duration of the voting; 0: until Ctrl-C.")] = 60,
    rate: Annotated[float, typer.Option(min=0.1, max=5000, help="Votes per second.")] = 150,
    voters: Annotated[int, typer.Option(min=1, help="Number of signed-in voters.")] = 5000,
    keep: Annotated[bool, typer.Option("--keep", help="Keep running after the voting, until Ctrl-C.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the random votes; the same seed repeats them.")] = 1,
    no_browser: Annotated[
        bool,
        typer.Option(
            "--no-browser",
            help="Open no browser; by default a terminal session with a display opens one, logged in.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one line of JSON; progress goes to stderr.")
    ] = False,
) -> AsyncGenerator[DemoResult, None]:
    """Start everything, simulate voters of all kinds in a sample contest, and check the counts at the end.

    Ctrl-C ends the voting and runs the check, a second one stops at once. Exit code 0: the counts equal those
    computed from the log.
    """
    check_environment()
    console, interrupts = Console(stderr=as_json, highlight=False), Interrupts()
    report = Report(console if console.is_terminal else None)
    settings = StackSettings(data_dir=data_dir, gateways=1, projectors=1)
    supervisor = Supervisor(settings, bootstrap, port=port, any_port=any_port, fresh=fresh, report=report)
    console.print("Starting Kafka, Valkey and the service on this machine ...")
    try:
        if await interrupts.run_unless_interrupted(supervisor.start()) is None:
            return
        async with AsyncExitStack() as opened:
            run = await opened.enter_async_context(_Demo.open(supervisor, console, voters, seed, rate, seconds))
            page = await opened.enter_async_context(serve_voting_page(supervisor.stack))
            introduce(console, supervisor.stack, run.sample, data_dir, page)
            if not no_browser and console.is_terminal:
                await open_dashboard(supervisor.stack, run.sample.key)
            yield await run.play(interrupts, seconds)
            if keep:
                console.print("The stack keeps running; Ctrl-C stops it.")
                await interrupts.wait()
    except asyncio.CancelledError:
        console.print("Stopped without the check.")
        for part in PARTS:
            if part.name in supervisor.pids:
                await supervisor.kill(part.name, restart=False)
        raise typer.Exit(ExitCode.PROBLEM) from None
    finally:
        await supervisor.stop()


@dataclass(frozen=True)
class _Demo:
    """The voters and the screen of one demo."""

    deployment: Deployment
    console: Console
    sample: Sample
    results: AcceptedResults
    metrics: LiveMetrics
    voters: VoterPopulation
    load: VoterLoad
    screen: Screen

    @classmethod
    @asynccontextmanager
    async def open(
        cls, supervisor: Supervisor, console: Console, voters: int, seed: int, rate: float, seconds: float
    ) -> AsyncIterator["_Demo"]:
        stack = supervisor.stack
        async with Deployment(addresses_in(stack)) as deployment, _client(stack) as client:
            sample, results = await create_sample(client), AcceptedResults()
            population = VoterPopulation(list(sample.titles), voters, seed)
            metrics = LiveMetrics(client, sample.key, deployment)
            load = VoterLoad(client, sample.key, population, results, rate)
            screen = Screen(sample, metrics, results, stack["base_url"], seconds)
            yield cls(deployment, console, sample, results, metrics, population, load, screen)

    async def play(self, interrupts: Interrupts, seconds: float) -> DemoResult:
        """Vote for some seconds or until interrupted, and check the counts."""
        watching = asyncio.create_task(self.metrics.watch())
        try:
            async with shown(self.console, self.screen):
                await self._vote(interrupts, seconds)
                self.screen.phase = "waiting for the last responses"
                await self.load.settle(SETTLE_S)
                self.screen.phase = "comparing with the log"
                check = await self._check()
        finally:
            watching.cancel()
            await self.load.leave()
        base_url = self.deployment.description["base_url"]
        return DemoResult(base_url, self.sample.key, self.results.answers(), check, self.sample.titles)

    async def _vote(self, interrupts: Interrupts, seconds: float) -> None:
        over = asyncio.Event()
        voting = asyncio.create_task(self.load.vote_until(over))
        await interrupts.wait_on(seconds or None)
        over.set()
        await voting

    async def _check(self) -> CheckResult:
        folded = await self.metrics.wait_until_folded(SETTLE_S)
        self.metrics.counts = None
        for _ in range(10):
            with suppress(httpx.HTTPError):
                await self.metrics.read_final_counts()
                break
            await asyncio.sleep(0.5)
        ids, counts = self.voters.ids, self.metrics.counts
        return await check_counts(self.deployment, self.sample, self.results, ids, counts, folded=folded)


def _client(stack: dict[str, Any]) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=stack["base_url"],
        headers={"authorization": f"Bearer {stack['api_key']}"},
        timeout=httpx.Timeout(15.0, pool=None),
        limits=httpx.Limits(max_connections=MOST_IN_FLIGHT + 20, max_keepalive_connections=50),
        trust_env=False,
    )
