"""`tally dashboard`."""

import webbrowser
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from libs.local_stack.supervisor import Supervisor
from tests.support.commands import run, tally_json
from tests.support.http_clients import http_client


async def test_it_opens_an_address_that_logs_in_once(stack: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setenv("DISPLAY", ":7")
    address = (await tally_json(stack, "dashboard", "c/1"))["dashboard_url"]
    assert opened == [address]
    found = urlsplit(address)
    assert found.path == "/dashboard/contests/c%2F1"
    assert stack.stack["api_key"] not in address
    ticket = found.fragment.removeprefix("ticket=")
    async with http_client(base_url=stack.stack["base_url"]) as client:
        for status in (200, 401):
            assert (await client.post("/dashboard/session", json={"ticket": ticket})).status_code == status


async def test_without_a_stack_it_says_the_way_out(tmp_path: Path) -> None:
    done = await run("dashboard", "--data-dir", tmp_path, "--no-browser")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "tally up" in done.stderr
