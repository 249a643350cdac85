"""Unavailable servers: no response contains an address, and no log a password."""

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from libs.local_stack.ports import free_ports
from libs.local_stack.valkey import answers
from libs.local_stack.valkey import find as find_valkey
from libs.telemetry.environment_settings import read_settings
from services.cli.__main__ import app
from services.gateway.settings import Settings
from tests.support.clients.http_clients import http_client
from tests.support.clients.retried import final_answer
from tests.support.eventually import eventually

PASSWORD = "hunter2-f00d"
NOBODY = "127.0.0.1:1"
AWAY = {
    "TALLY_KAFKA_BOOTSTRAP_SERVERS": NOBODY,
    "TALLY_VALKEY_URL": f"redis://operator:{PASSWORD}@{NOBODY}/0",
    "TALLY_STORAGE_URL": f"s3://secret-bucket/objects?token={PASSWORD}",
    "TALLY_TRACES_URL": f"http://operator:{PASSWORD}@{NOBODY}/v1/traces",
    "TALLY_TRACES_RATIO": "1",
    "AWS_ENDPOINT": f"http://{NOBODY}",
    "AWS_ALLOW_HTTP": "true",
    "AWS_ACCESS_KEY_ID": "operator",
    "AWS_SECRET_ACCESS_KEY": PASSWORD,
}
OUR_WORDS = ("Connect call", "Errno", "redis", "Kafka", "Valkey", "operator:")
"""Of what libraries and we ourselves say of servers; callers get none of it."""
KEY = {"authorization": f"Bearer tk_{'0' * 16}_{'x' * 43}"}
LEGACY = {"service-brand": "b", "service-key": f"tk_{'0' * 16}_{'x' * 43}"}
ASKED = [
    ("GET", "/readyz", {}),
    ("GET", "/livez", {}),
    ("GET", "/contests", KEY),
    ("POST", "/contests/c/votes", KEY),
    ("POST", "/contests/c/votes/batch", KEY),
    ("GET", "/contests/c/vote_updates", KEY),
    ("GET", "/public/contests/c/results", {}),
    ("GET", "/legacy/contests/c", LEGACY),
    ("GET", "/media/image/x", {}),
    ("GET", "/files/x/content?signature=x", {}),
    ("POST", "/operations/purchases", KEY),
    ("GET", "/operations/status", KEY),
]
COMMANDS = ("status", "doctor", "config show", "topics check", "keys list", "up --port 0")


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[tuple[httpx.AsyncClient, Path]]:
    """A gateway whose servers went away, and its log."""
    port, valkey_port = free_ports(2)
    log, objects = tmp_path / "log", tmp_path / "secret-bucket"
    environment = os.environ | AWAY | {"TALLY_STORAGE_URL": str(objects), "TALLY_PORT": str(port)}
    environment["TALLY_VALKEY_URL"] = f"redis://:{PASSWORD}@127.0.0.1:{valkey_port}/0"
    options = ("--port", str(valkey_port), "--requirepass", PASSWORD, "--save", "", "--dir", str(tmp_path))
    with log.open("wb") as out, ExitStack() as running:

        def start(output: Any, *command: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
            running.callback(process.wait)
            running.callback(process.kill)
            return process

        valkey = start(subprocess.DEVNULL, str(find_valkey()), *options)
        await eventually(lambda: answers(environment["TALLY_VALKEY_URL"]))
        start(out, sys.executable, "-m", "services.gateway")
        async with http_client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            await final_answer(lambda: client.get("/livez"))
            valkey.kill()
            valkey.wait()
            shutil.rmtree(objects)
            objects.write_text("no directory")
            yield client, log


async def test_callers_receive_no_address_and_the_log_says_why_without_a_password(
    gateway: tuple[httpx.AsyncClient, Path],
) -> None:
    client, log = gateway
    unavailable: list[str] = []
    for method, path, headers in ASKED:
        request_id = uuid.uuid4().hex
        body = {"voter_id": "v", "participant_key": "p"} if method == "POST" else None
        answer = await client.request(method, path, headers={**headers, "x-request-id": request_id}, json=body)
        for secret in (PASSWORD, "secret-bucket", "127.0.0.1", *OUR_WORDS):
            assert secret not in f"{answer.headers} {answer.text}", (path, answer.text)
        if answer.status_code == 503 and path != "/readyz":
            unavailable.append(request_id)
    assert len(unavailable) > 5
    # lines that say the same are written once in a while only
    assert any(unavailable[0] in line and "127.0.0.1:" in line for line in log.open())
    assert "secret-bucket" in log.read_text()
    assert PASSWORD not in log.read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_prints_a_password(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in AWAY.items():
        monkeypatch.setenv(name, value)
    for form in ((), ("--json",)):
        result = CliRunner().invoke(app, [*command.split(), "--data-dir", str(tmp_path / "d"), *form])
        assert PASSWORD not in result.output + repr(result.exception)
        assert result.output


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TALLY_VALKEY_URL", f"redis://:{PASSWORD}/x@h:1/0"),
        ("TALLY_TRACES_URL", f"operator:{PASSWORD}@h"),
    ],
)
def test_an_address_that_is_none_is_refused_without_quoting_it(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slash in a password ends the URL's authority: a client library would quote the rest of it as a port."""
    for variable, given in (AWAY | {name: value}).items():
        monkeypatch.setenv(variable, given)
    with pytest.raises(SystemExit, match=r"[1-9]"):
        read_settings(Settings)
    said = capsys.readouterr()
    assert said.err.startswith(f"Error: {name}: ")
    assert PASSWORD not in said.err + said.out
