"""Runs the demo: start the stack, send votes, wait for responses, check the counts."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from rich.console import Console

from libs.deployment.deployment import Deployment
from libs.kafka.reader import LogReader
from libs.local_stack.report import Report
from libs.local_stack.service_process import PARTS
from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from libs.views.functions import open_valkey
from services.cli import bootstrap
from services.cli.commands.dashboard import open_dashboard
from services.cli.commands.demo.check import CheckResult, check_counts
from services.cli.commands.demo.interrupts import Interrupts
from services.cli.commands.demo.load import MOST_IN_FLIGHT, VoterLoad
from services.cli.commands.demo.messages import conclude, introduce
from services.cli.commands.demo.metrics import LiveMetrics
from services.cli.commands.demo.results import AcceptedResults
from services.cli.commands.demo.sample import Sample, create_sample
from services.cli.commands.demo.screen import Screen
from services.cli.commands.demo.screen_updates import shown
from services.cli.commands.demo.voters import VoterPopulation
from services.cli.runner import ExitCode, print_json

SETTLE_S: Final = 60.0
"""Time for the last responses after the voting, and then again for the fold."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of `tally demo`; see its help."""

    data_dir: Path
    port: int
    any_port: bool
    fresh: bool
    seconds: float
    rate: float
    voters: int
    keep: bool
    seed: int
    as_json: bool
    browser: bool


async def play(options: Options) -> ExitCode:
    """Run the demo. Raises `StackError` and `TallyError`; all processes are stopped at the end."""
    console = Console(stderr=options.as_json, highlight=False)
    interrupts = Interrupts()
    supervisor = Supervisor(
        StackSettings(data_dir=options.data_dir),
        bootstrap,
        port=options.port,
        any_port=options.any_port,
        fresh=options.fresh,
        report=Report(console if console.is_terminal else None),
    )
    console.print("Starting Kafka, Valkey and the service on this machine ...")
    try:
        if await interrupts.run_unless_interrupted(supervisor.start()) is None:
            return ExitCode.FINE
        ending = await _run(options, console, interrupts, supervisor)
        if options.keep:
            console.print("The stack keeps running; Ctrl-C stops it.")
            await interrupts.wait()
    except asyncio.CancelledError:
        console.print("Stopped without the check.")
        for part in PARTS:
            if part.name in supervisor.pids:
                await supervisor.kill(part.name, restart=False)
        return ExitCode.PROBLEM
    finally:
        await supervisor.stop()
    return ending


async def _run(options: Options, console: Console, interrupts: Interrupts, supervisor: Supervisor) -> ExitCode:
    stack = _stack(supervisor)
    valkey = open_valkey(stack.valkey)
    try:
        async with _client(stack.description) as client, LogReader(stack.kafka_settings) as reader:
            sample = await create_sample(client)
            introduce(console, stack.description, sample, options.data_dir)
            if options.browser and console.is_terminal:
                await open_dashboard(stack.description, sample.key)
            results, metrics = AcceptedResults(), LiveMetrics(client, sample.key, stack, reader, valkey)
            voters = VoterPopulation(list(sample.titles), options.voters, options.seed)
            load = VoterLoad(client, sample.key, voters, results, options.rate)
            screen = Screen(sample, metrics, results, stack.description["base_url"], options.seconds)
            watching = asyncio.create_task(metrics.watch())
            try:
                async with shown(console, screen):
                    await _vote(load, interrupts, options.seconds)
                    screen.phase = "waiting for the last responses"
                    await load.settle(SETTLE_S)
                    screen.phase = "comparing with the log"
                    result = await _check(metrics, stack, sample, results, voters)
            finally:
                watching.cancel()
                await load.leave()
    finally:
        await valkey.close()
    conclude(console, result, results, sample)
    if options.as_json:
        print_json(_result(stack, sample, results, result))
    return ExitCode.FINE if result.good else ExitCode.PROBLEM


async def _vote(load: VoterLoad, interrupts: Interrupts, seconds: float) -> None:
    over = asyncio.Event()
    voting = asyncio.create_task(load.vote_until(over))
    await interrupts.wait_on(seconds or None)
    over.set()
    await voting


async def _check(
    metrics: LiveMetrics, stack: Deployment, sample: Sample, results: AcceptedResults, voters: VoterPopulation
) -> CheckResult:
    folded = await metrics.wait_until_folded(SETTLE_S)
    metrics.counts = None
    for _ in range(10):
        with suppress(httpx.HTTPError):
            await metrics.read_final_counts()
            break
        await asyncio.sleep(0.5)
    return await check_counts(stack, sample, results, voters.ids, metrics.counts, folded=folded)


def _stack(supervisor: Supervisor) -> Deployment:
    found = supervisor.stack
    return Deployment(
        kafka=found["kafka"],
        valkey=found["valkey"],
        namespace=found["namespace"],
        partitions=found["partitions"],
        storage_url=found["storage_url"],
        description=found,
    )


def _client(stack: dict[str, Any]) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=stack["base_url"],
        headers={"authorization": f"Bearer {stack['api_key']}"},
        timeout=httpx.Timeout(15.0, pool=None),
        limits=httpx.Limits(max_connections=MOST_IN_FLIGHT + 20, max_keepalive_connections=50),
        trust_env=False,
    )


def _result(stack: Deployment, sample: Sample, results: AcceptedResults, result: CheckResult) -> dict[str, Any]:
    p50, p99 = results.all_times()
    return {
        "base_url": stack.description["base_url"],
        "contest_key": sample.key,
        "answers": {
            "accepted": results.first_answers,
            "replayed": results.replayed,
            "refused": dict(results.refusals),
            "sent_again": dict(results.retries),
            "p50_ms": round(p50 * 1000, 1),
            "p99_ms": round(p99 * 1000, 1),
        },
        **result.as_json(),
    }
