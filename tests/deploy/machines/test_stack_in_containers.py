"""`tally up` with its servers in containers (testcontainers), on stand-ins for their images."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.deploy.machines import images
from tests.deploy.machines.conftest import Row
from tests.deploy.machines.machine import Machine
from tests.support.clients.retried import final_answer
from tests.support.clients.stack_keys import development_client
from tests.support.clients.voting import Api

pytestmark = pytest.mark.stack


async def start(environment: dict[str, str], data_dir: Path) -> tuple[asyncio.subprocess.Process, dict[str, str]]:
    command = [sys.executable, "-m", "services.cli", "up", "--port", "0", "--json", "--data-dir", str(data_dir)]
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), 240)
    return process, json.loads(line)


async def test_votes_outlive_a_restart_of_a_stack_in_containers(
    machine: Machine, tmp_path: Path, row: Row
) -> None:
    environment = os.environ | {
        "DOCKER_HOST": f"unix://{machine.shared}/docker.sock",
        "TESTCONTAINERS_RYUK_DISABLED": "true",  # its image is not to be had here
        "TALLY_STACK": "containers",
        "TALLY_KAFKA_IMAGE": images.KAFKA,
        "TALLY_VALKEY_IMAGE": images.VALKEY,
        "TALLY_STACK_START_TIMEOUT_S": "180",
    }
    process, stack = await start(environment, tmp_path)
    try:
        running = machine.docker("ps", "--format={{.Image}}").split()
        assert sorted(running) == [images.KAFKA, images.VALKEY]
        async with development_client(stack) as client:
            contest = await Api(client).contest()
            assert (await contest.counts_with(await contest.vote()))["count"] == 1
        process.send_signal(signal.SIGTERM)
        await process.wait()
        assert machine.docker("ps", "--quiet") == ""
        process, stack = await start(environment, tmp_path)
        async with development_client(stack) as client:
            answer = await final_answer(lambda: client.get(f"{contest.path}/vote_updates/"))
        assert answer.json()["count"] == 1
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()
        machine.docker("volume", "prune", "--all", "--force")
    row("`TALLY_STACK=containers tally up`", "vote counted, and still after a restart")
