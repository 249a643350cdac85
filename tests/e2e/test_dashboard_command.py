"""`tally dashboard` as a process."""

import asyncio
import json
import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from libs.local_stack.supervisor import Supervisor
from tests.support.http_clients import http_client


async def dashboard(data_dir: Path, *options: str) -> tuple[int, str, str]:
    """Its exit code and what it printed, on both. `true` stands for the browser."""
    environment = {**os.environ, "DISPLAY": ":7", "BROWSER": "true"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.cli", "dashboard", "--data-dir", str(data_dir), *options),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_it_prints_an_address_that_logs_in_once(stack: Supervisor) -> None:
    code, out, _ = await dashboard(stack.data_dir, "c/1", "--json")
    address = json.loads(out)["dashboard_url"]
    found = urlsplit(address)
    assert (code, found.path) == (0, "/dashboard/contests/c%2F1")
    assert stack.stack["api_key"] not in address
    ticket = found.fragment.removeprefix("ticket=")
    async with http_client(base_url=stack.stack["base_url"]) as client:
        for status in (200, 401):
            assert (await client.post("/dashboard/session", json={"ticket": ticket})).status_code == status


async def test_without_a_stack_it_says_the_way_out(tmp_path: Path) -> None:
    code, out, err = await dashboard(tmp_path, "--no-browser")
    assert (code, out) == (3, "")
    assert "tally up" in err
