"""Two versions at once, while voters vote: no answered vote is lost, doubled or over a limit, and a retry resolves
each 503."""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path

import httpx
import pytest

from libs.local_stack.child_process import Process, Reaper
from libs.local_stack.ports import free_ports
from libs.local_stack.supervisor import Supervisor
from libs.views.valkey import function_libraries
from services.cli.deployment_discovery import find_addresses
from tests.faults.voters import Voters, a_limited_contest, settled, voting
from tests.support.clients import commands
from tests.support.clients.http_clients import http_client
from tests.support.clients.stack_keys import development_client
from tests.support.eventually import eventually
from tests.support.run_profile import by_profile
from tests.support.servers.deployments import compare
from tests.support.servers.versions import LAYOUT, OTHER_LAYOUT, changed_copy, functions_of_another_version

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
VOTERS = 8
LIMIT = 20
RESTARTS = by_profile(short={"gateway": 2, "projector": 4}, long={"gateway": 15, "projector": 35})

Restart = Callable[[bool], Awaitable[None]]
"""Stops a process, by SIGKILL if the argument is true, and starts it again."""


class Gateways(httpx.AsyncHTTPTransport):
    """Sends each request to one of several gateways, at random."""

    def __init__(self, base_urls: list[str]) -> None:
        super().__init__()
        self._base_urls = [httpx.URL(each) for each in base_urls]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        chosen = random.choice(self._base_urls)
        request.url = request.url.copy_with(host=chosen.host, port=chosen.port)
        return await super().handle_async_request(request)


@dataclass
class Newer:
    """Gateway and projector of the newer version, whose functions are in `sources`."""

    sources: Path
    base_url: str
    processes: dict[str, Process]

    async def restart(self, name: str, hard: bool) -> None:
        process = self.processes[name]
        await (process.kill() if hard else process.stop())
        await process.start()

    async def tally(self, *arguments: str) -> str:
        command = sys.executable, "-m", "tests.support.servers.run_version", str(self.sources), "services.cli"
        process = await asyncio.create_subprocess_exec(
            *command, *arguments, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await process.communicate()
        assert process.returncode == 0, printed
        return printed.decode()


@asynccontextmanager
async def newer_version(stack: Supervisor, sources: Path) -> AsyncIterator[Newer]:
    port, metrics_port = free_ports(2)
    environment = commands.environment(find_addresses(stack.data_dir)) | {
        "TALLY_PORT": str(port),
        "TALLY_METRICS_PORT": str(metrics_port),
        "TALLY_DRAIN_DELAY_S": "0",
    }
    reaper, processes = Reaper(), dict[str, Process]()
    for name in ("projector", "gateway"):
        command = sys.executable, "-m", "tests.support.servers.run_version", str(sources), f"services.{name}"
        log = stack.data_dir / "logs" / f"newer {name}.log"
        processes[name] = Process(
            f"newer {name}", command, reaper=reaper, log=log, cwd=ROOT, environment=environment
        )
        await processes[name].start()
    try:
        yield Newer(sources, f"http://127.0.0.1:{port}", processes)
    finally:
        for process in processes.values():
            await process.kill()
        reaper.close()


async def is_ready(base_url: str) -> bool:
    async with http_client(base_url=base_url) as client:
        try:
            return (await client.get("/readyz")).is_success
        except httpx.TransportError:
            return False


@asynccontextmanager
async def voted_on(stack: Supervisor, newer: Newer) -> AsyncIterator[Voters]:
    """Voters at the gateways of both versions; at the end each of their votes is counted once."""
    async with development_client(stack.stack) as client:
        contest = await a_limited_contest(client, LIMIT)
    both = Gateways([stack.base_url, newer.base_url])
    async with development_client(stack.stack, base_url="http://any", transport=both) as client:
        voters = Voters(replace(contest, client=client))
        async with voting(voters, VOTERS):
            await eventually(lambda: voters.total > 20)
            yield voters
            before = voters.total
            await eventually(lambda: voters.total > before + 20)
    assert await eventually(lambda: is_ready(newer.base_url))
    async with development_client(stack.stack, base_url=newer.base_url) as client:
        await settled(client, replace(contest, client=client), voters)
    voters.are_within(2 * LIMIT)


async def test_votes_outlive_restarts_among_two_versions(stack: Supervisor, tmp_path: Path) -> None:
    sources = changed_copy(function_libraries.SOURCES, tmp_path / "newer", [])

    def restart_former(name: str) -> Restart:
        async def restart(hard: bool) -> None:
            if hard:
                await stack.kill(name, restart=False)
            await stack.restart(name)

        return restart

    def restart_newer(name: str) -> Restart:
        return lambda hard: newer.restart(name, hard)

    async def restart_often(count: int, restarts: dict[str, Restart], base_urls: dict[str, str]) -> None:
        versions = cycle(random.sample(list(restarts), len(restarts)))
        for version in islice(versions, count):
            await restarts[version](random.random() < 0.5)
            if version in base_urls:
                assert await eventually(lambda: is_ready(base_urls[version]))  # noqa: B023

    async with newer_version(stack, sources) as newer:
        assert await eventually(lambda: is_ready(newer.base_url))
        urls = {"former": stack.base_url, "newer": newer.base_url}
        async with voted_on(stack, newer), asyncio.TaskGroup() as lanes:
            for name, base_urls in (("gateway", urls), ("projector", {})):
                restarts = {"former": restart_former(name), "newer": restart_newer(name)}
                lanes.create_task(restart_often(RESTARTS[name], restarts, base_urls))
        report = await compare(find_addresses(stack.data_dir))
        assert report.equal, report.differences


async def test_views_of_another_layout_are_built_while_the_former_version_serves(
    stack: Supervisor, tmp_path: Path
) -> None:
    sources = changed_copy(function_libraries.SOURCES, tmp_path / "newer", OTHER_LAYOUT)
    async with newer_version(stack, sources) as newer, voted_on(stack, newer) as voters:
        assert not await is_ready(newer.base_url)
        log = newer.processes["projector"].log
        assert log is not None
        await eventually(lambda: f"have layout {LAYOUT}, this version has 99" in log.read_text())
        where = "--data-dir", str(stack.data_dir)
        assert " 99 " in await newer.tally("replay", "plan", "--outdated", *where)
        before = voters.total
        await newer.tally("replay", "run", "--outdated", "--execute", *where)
        assert voters.total > before
        assert await eventually(lambda: is_ready(newer.base_url))
        assert not await is_ready(stack.base_url)
        for name in ("gateway", "projector"):
            await stack.kill(name, restart=False)
    with functions_of_another_version(tmp_path / "newer", OTHER_LAYOUT):
        report = await compare(find_addresses(stack.data_dir))
    assert report.equal, report.differences
