"""From an empty machine to a verified service, by `deploy/guides/restore.md` alone."""

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

import httpx
import pytest

from libs.local_stack.ports import free_ports
from libs.local_stack.servers import Servers
from tests.e2e.test_guides import GUIDES, blocks, succeeds
from tests.support.builders.pictures import picture
from tests.support.clients.commands import tally_json
from tests.support.clients.http_clients import http_client
from tests.support.clients.stack_keys import development_client
from tests.support.clients.voting import Api
from tests.support.eventually import eventually
from tests.support.servers.own_stack import open_own_stack

pytestmark = [pytest.mark.slow, pytest.mark.stack]
UP, CHECKS, IMPORT, SERVE, LAST_CHECKS = blocks(GUIDES / "restore.md")


def bare(**settings: str) -> dict[str, str]:
    """Return the environment of a machine that has no settings."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TALLY_")}
    return own | {"PATH": f"{Path(sys.executable).parent}:{own['PATH']}"} | settings


async def shell(script: str, directory: Path, environment: dict[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *("bash", "-e", "-o", "pipefail", "-c", script), cwd=directory, env=environment,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip


async def output_of(commands: str, backup: Path, **settings: str) -> str:
    """Run commands of `tally` one by one, in this process, as on a machine that has these settings alone."""
    others = dict.fromkeys(name for name in os.environ if name.startswith("TALLY_"))
    output = ""
    for line in commands.splitlines():
        _, *words = shlex.split(Template(line).substitute(BACKUP=backup))
        output += (await succeeds(line, words, others | settings)).stdout
    return output


@asynccontextmanager
async def restored(directory: Path, backup: Path) -> AsyncIterator[dict[str, Any]]:
    """Run the page's first command; yield the description of what it started."""
    site = directory / "site"
    environment = bare(SITE=str(site), BACKUP=str(backup), TALLY_PORT="0")
    process = await shell(f"exec {UP}", directory, environment)
    description = site / "stack.json"
    try:
        assert await eventually(lambda: description.exists() or process.returncode is not None)
        if process.returncode is not None:
            pytest.fail((await process.communicate())[0].decode())
        yield json.loads(await asyncio.to_thread(description.read_text))
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.communicate()


@asynccontextmanager
async def served(command: str, directory: Path, environment: dict[str, str]) -> AsyncIterator[None]:
    process = await shell(f"exec {command} >/dev/null 2>&1", directory, environment)
    try:
        yield
        assert process.returncode is None, command
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()


async def is_ready(port: int) -> bool:
    async with http_client() as client:
        with suppress(httpx.TransportError):
            return (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
    return False


async def test_a_backup_becomes_a_verified_service_on_an_empty_machine(servers: Servers, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    async with open_own_stack(servers, tmp_path / "old") as old:
        description = old.stack
        async with development_client(description) as client:
            contest = await Api(client).contest(participants=2)
            votes = {voter: (await contest.vote(0, voter, vote_id=voter)).json() for voter in ("ada", "bo", "cy")}
            made = await client.post("/images", files={"file": ("stage.jpg", picture("jpg", 1200, 600))})
            assert made.status_code == 201, made.text
            image = f"/media/image/{made.json()['key']}"
            shown = (await client.get(image)).content
            assert shown
        await tally_json(old, "export", "--to", backup)
        manifest = json.loads((backup / "manifest.json").read_text())
    async with (
        restored(tmp_path, backup) as new,
        development_client(description, base_url=new["base_url"]) as client,
    ):
        checks = await output_of(CHECKS, backup, TALLY_DATA_DIR=str(tmp_path / "site"))
        assert "The views equal the log." in checks
        assert (await client.get(image)).content == shown, "the picture, with a key of the old service"
        again = await replace(contest, client=client).vote(0, "ada", vote_id="ada")
        assert again.status_code == 200, again.text
        assert again.json()["receipt"] == votes["ada"]["receipt"]
    [port, *operators_ports] = free_ports(3)
    empty = {
        "TALLY_KAFKA_BOOTSTRAP_SERVERS": servers.addresses.kafka,
        "TALLY_VALKEY_URL": servers.addresses.valkey,
        "TALLY_STORAGE_URL": (tmp_path / "objects").as_uri(),
        "TALLY_NAMESPACE": f"{manifest['namespace']}b",
        "TALLY_PARTITIONS": str(manifest["partitions"]),
        "TALLY_PORT": str(port),
        "TALLY_OPERATIONS_PORT": str(operators_ports[0]),
        "TALLY_METRICS_PORT": str(operators_ports[1]),
    }
    imported = await output_of(IMPORT, backup, **empty)
    assert f"Imported {sum(part['records'] for part in manifest['parts'])} records" in imported
    async with AsyncExitStack() as running:
        for command in SERVE.splitlines():
            await running.enter_async_context(served(command, tmp_path, bare(**empty)))
        for operators_port in operators_ports:
            await eventually(partial(is_ready, operators_port))

        async def is_whole() -> bool:
            return "The views equal the log." in await output_of(LAST_CHECKS, backup, **empty)

        await eventually(is_whole, every_s=1.0)
