"""`tally voting-page`: serves the page behind an address of its own, and refuses addresses that are none."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from libs.local_stack import ports
from services.cli.__main__ import app
from services.cli.commands.up import qr_code
from services.cli.output import ExitCode
from tests.support.clients.http_clients import http_client
from tests.support.clients.retried import final_answer

pytestmark = pytest.mark.pure
API = {"TALLY_URL": "http://127.0.0.1:1", "TALLY_API_KEY": "tk_x"}
ORIGIN = ("--origin", "https://vote.example")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--origin", "vote.example"), "--origin"),
        (("--origin", "https://vote.example/page"), "--origin"),
        ((*ORIGIN, "--public-url", "api.example"), "--public-url"),
        ((*ORIGIN, "--trusted-proxies", "everywhere"), "--trusted-proxies"),
    ],
)
def test_what_is_no_address_is_bad_usage(arguments: tuple[str, ...], option: str) -> None:
    ended = CliRunner().invoke(app, ["voting-page", *arguments], env=API)
    assert (ended.exit_code, option in ended.stderr) == (ExitCode.BAD_USAGE, True), ended.output


async def test_it_serves_the_page_under_its_own_name(tmp_path: Path) -> None:
    (port,) = ports.free_ports(1)
    command = (sys.executable, "-m", "services.cli", "voting-page", *ORIGIN, "--port", str(port))
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **API}, stderr=log)
    try:
        async with http_client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
            page = await final_answer(lambda: client.get("/", headers={"host": "vote.example"}))
            assert 'data-api="http://127.0.0.1:1"' in page.text
            assert (await client.get("/")).status_code == 400
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


def test_a_qr_code_is_drawn_in_characters() -> None:
    lines = qr_code("http://192.168.1.5:8081").splitlines()
    assert len(lines) > 10
    assert len({len(line) for line in lines}) == 1
    assert set("".join(lines)) <= set(" ▀▄█")
