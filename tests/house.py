"""`python -m tests.house`: prints how large the house is, and the files and turns back of a vote and a PATCH of a
contest.

A file is passed if one of its functions is called for the request, in the gateway or the projector, and not while
nothing happens. Both requests pass the files of HTTP, keys, the log and folds.

A turn back is a call against the imports that returns to where the calls came from: from a file into one that
imports it and has called it, directly or through others, or into another package of which that is so.
"""

import ast
import asyncio
import json
import os
import signal
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final
from uuid import uuid4

import grimp

from libs.local_stack.service_process import PARTS, ServiceProcess
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Silence
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap
from tests.support.clients.http_clients import http_client
from tests.support.clients.voting import Api, running
from tests.support.eventually import eventually
from tests.support.servers.deployments import FEW_PARTITIONS
from tests.support.traced import ROOT, Call, package

IDLE_S: Final = 10.0
"""Time in which all that services do by the clock alone is seen."""
FOLDED_S: Final = 1.0
TIMES: Final = 3
"""Requests of a kind: what only some of them call, such as a cache that expires, is no part of it."""
SHORT: Final = 40
PER_SERVICE: Final = "Settings"

Called = set[Call]
Turn = tuple[str, str]


def files(*folders: str, suffix: str = ".py") -> list[Path]:
    """Return the files that are not empty."""
    found = (file for folder in folders for file in (ROOT / folder).rglob(f"*{suffix}"))
    return [file for file in found if file.stat().st_size]


def lines(file: Path) -> int:
    return len(file.read_text().splitlines())


def sizes() -> Iterator[str]:
    product = [lines(file) for file in files("libs", "services")]
    tests = [file for file in files("tests") if "benchmarks" not in file.parts]
    yield f"Python in libs and services: {sum(product):,} lines"
    yield (
        f"their files: {len(product)}, median {statistics.median(product):g} lines; "
        f"under {SHORT}: {sum(length < SHORT for length in product)}"
    )
    yield f"Lua: {sum(map(lines, files('libs', 'services', suffix='.lua'))):,} lines"
    yield f"tests without benchmarks: {sum(map(lines, tests)):,} lines"
    twice = names_of_two()
    yield f"public class names of two files: {len(twice)}"
    yield from (f"  {name}: {', '.join(sorted(found))}" for name, found in sorted(twice.items()))


def names_of_two() -> dict[str, list[str]]:
    """Return the public classes' names that two files define, a service's settings apart."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in files("libs", "services"):
        for statement in ast.parse(file.read_text()).body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                found[statement.name].append(str(file.relative_to(ROOT)))
    return {name: places for name, places in found.items() if len(places) > 1 and name != PER_SERVICE}


async def passed() -> dict[str, Called]:
    """Return what a vote and a change of a contest call, in the gateway and the projector."""
    with tempfile.TemporaryDirectory(prefix="house-") as directory:
        data_dir = Path(directory)
        parts = [traced(part, data_dir) for part in PARTS]
        settings = StackSettings(data_dir=data_dir / "stack", stack="native", partitions=FEW_PARTITIONS)
        stack = Supervisor(settings, bootstrap, port=0, any_port=True, parts=parts, report=Silence())
        async with stack:
            headers = {"Authorization": f"Bearer {stack.credentials['api_key']}"}
            async with http_client(base_url=stack.base_url, headers=headers, timeout=20.0) as client:
                contest = await Api(client).contest(1, running())

                async def vote() -> None:
                    content = {"vote_id": uuid4().hex, "voter_id": uuid4().hex}
                    body = content | {"participant_key": contest.participants[0]}
                    (await client.post(f"{contest.path}/votes", json=body)).raise_for_status()

                async def change() -> None:
                    (await client.patch(contest.path, json={"title": uuid4().hex})).raise_for_status()

                pids = [stack.pids[part.name] for part in parts]
                found = {}
                for name, request in (("a vote", vote), ("PATCH of a contest", change)):
                    for _ in range(3):  # what only first requests do is no part of it
                        await request()
                    await asyncio.sleep(FOLDED_S)
                    idle = await called(pids, data_dir, lambda: asyncio.sleep(IDLE_S))
                    each = [await called(pids, data_dir, request) for _ in range(TIMES)]
                    found[name] = set.intersection(*each) - idle
                return found


def traced(part: ServiceProcess, directory: Path) -> ServiceProcess:
    *before, module = part.command
    command = (*before, "tests.support.traced", str(directory / f"{part.name}.json"), module)
    return replace(part, command=command)


async def called(pids: list[int], directory: Path, work: Callable[[], Awaitable[object]]) -> Called:
    """Return the functions that the services call from now on until the work's record is folded."""
    for pid in pids:
        os.kill(pid, signal.SIGUSR2)
    await work()
    await asyncio.sleep(FOLDED_S)
    for pid in pids:
        os.kill(pid, signal.SIGUSR2)

    return await eventually(lambda: written(directory, len(pids)))


def written(directory: Path, services: int) -> Called:
    """Take what the services have written, once all have."""
    results = list(directory.glob("*.json"))
    assert len(results) == services
    found: Called = set()
    for file in results:
        found |= {Call(*call) for call in json.loads(file.read_text())}
        file.unlink()
    return found


def turns_back(calls: Called) -> set[Turn]:
    """Return the turns back, each as the calling file and the called one, or its package if that is another."""
    imports = grimp.build_graph("libs", "services")

    def is_above(call: Call) -> bool:
        above, below = package(call.file), package(call.caller)
        if above == below:
            return imports.chain_exists(importer=module(call.file), imported=module(call.caller))
        return imports.chain_exists(importer=above, imported=below, as_packages=True)

    return {
        (call.caller, call.file if package(call.file) == package(call.caller) else package(call.file))
        for call in calls
        if call.is_open and is_above(call)
    }


def module(file: str) -> str:
    return file.removesuffix(".py").replace(os.sep, ".")


def paths(found: dict[str, Called]) -> Iterator[str]:
    by_name = {name: {call.file for call in calls} for name, calls in found.items()}
    shared = set.intersection(*by_name.values())
    yield f"files that each of both passes: {len(shared)}"
    yield from (f"  {file}" for file in sorted(shared))
    for name, passed_files in by_name.items():
        yield f"files that {name} passes: {len(passed_files)}, of its own: {len(passed_files - shared)}"
        yield from (f"  {file}" for file in sorted(passed_files - shared))
    turns = {name: turns_back(calls) for name, calls in found.items()}
    common = set.intersection(*turns.values())
    yield f"turns back of both: {len(common)}"
    yield from (f"  {caller} -> {file}" for caller, file in sorted(common))
    for name, own in turns.items():
        yield f"turns back of {name}: {len(own)}, of its own: {len(own - common)}"
        yield from (f"  {caller} -> {file}" for caller, file in sorted(own - common))


if __name__ == "__main__":
    print(*sizes(), sep="\n", flush=True)
    print(*paths(asyncio.run(passed())), sep="\n")
