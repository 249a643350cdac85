"""The acts of the demo: start, introduce, vote, settle, judge."""

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
from services.cli import bootstrap as prepare
from services.cli.commands.dashboard import open_dashboard
from services.cli.commands.demo.check import CheckResult, judge
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
"""How long voters wait for their answers, and then the check for the fold, once the voting is over."""


@dataclass(frozen=True, slots=True)
class Options:
    """See the command's help."""

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
    """Raises `StackError` and `TallyError`; nothing is left running."""
    console = Console(stderr=options.as_json, highlight=False)
    interrupts = Interrupts()
    supervisor = Supervisor(
        StackSettings(data_dir=options.data_dir),
        prepare,
        port=options.port,
        any_port=options.any_port,
        fresh=options.fresh,
        report=Report(console if console.is_terminal else None),
    )
    console.print("Starting Kafka, Valkey and the service on this machine ...")
    try:
        if await interrupts.unless_asked(supervisor.start()) is None:
            return ExitCode.FINE
        ending = await _perform(options, console, interrupts, supervisor)
        if options.keep:
            console.print("The stack stays up; Ctrl-C stops it.")
            await interrupts.wait()
    except asyncio.CancelledError:
        console.print("Stopped at once, without the check.")
        for part in PARTS:
            if part.name in supervisor.pids:
                await supervisor.kill(part.name, restart=False)
        return ExitCode.PROBLEM
    finally:
        await supervisor.stop()
    return ending


async def _perform(options: Options, console: Console, interrupts: Interrupts, supervisor: Supervisor) -> ExitCode:
    stack = _stack(supervisor)
    valkey = open_valkey(stack.valkey)
    try:
        async with _client(stack.description) as client, LogReader(stack.kafka_settings) as reader:
            sample = await create_sample(client)
            introduce(console, stack.description, sample, options.data_dir)
            if options.browser and console.is_terminal:
                await open_dashboard(stack.description, sample.key)
            books, gauge = AcceptedResults(), LiveMetrics(client, sample.key, stack, reader, valkey)
            electorate = VoterPopulation(list(sample.titles), options.voters, options.seed)
            crowd = VoterLoad(client, sample.key, electorate, books, options.rate)
            screen = Screen(sample, gauge, books, stack.description["base_url"], options.seconds)
            watching = asyncio.create_task(gauge.watch())
            try:
                async with shown(console, screen):
                    await _vote(crowd, interrupts, options.seconds)
                    screen.phase = "waiting for the last answers"
                    await crowd.settle(SETTLE_S)
                    screen.phase = "comparing with the log"
                    verdict = await _judged(gauge, stack, sample, books, electorate)
            finally:
                watching.cancel()
                await crowd.leave()
    finally:
        await valkey.close()
    conclude(console, verdict, books, sample)
    if options.as_json:
        print_json(_result(stack, sample, books, verdict))
    return ExitCode.FINE if verdict.good else ExitCode.PROBLEM


async def _vote(crowd: VoterLoad, interrupts: Interrupts, seconds: float) -> None:
    over = asyncio.Event()
    voting = asyncio.create_task(crowd.vote_until(over))
    await interrupts.wait_on(seconds or None)
    over.set()
    await voting


async def _judged(
    gauge: LiveMetrics, stack: Deployment, sample: Sample, books: AcceptedResults, electorate: VoterPopulation
) -> CheckResult:
    folded = await gauge.wait_until_folded(SETTLE_S)
    gauge.counts = None
    for _ in range(10):
        with suppress(httpx.HTTPError):
            await gauge.read_final_counts()
            break
        await asyncio.sleep(0.5)
    return await judge(stack, sample, books, electorate.ids, gauge.counts, folded=folded)


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


def _result(stack: Deployment, sample: Sample, books: AcceptedResults, verdict: CheckResult) -> dict[str, Any]:
    p50, p99 = books.all_times()
    return {
        "base_url": stack.description["base_url"],
        "contest_key": sample.key,
        "answers": {
            "accepted": books.first_answers,
            "replayed": books.replayed,
            "refused": dict(books.refusals),
            "sent_again": dict(books.retries),
            "p50_ms": round(p50 * 1000, 1),
            "p99_ms": round(p99 * 1000, 1),
        },
        **verdict.as_json(),
    }
