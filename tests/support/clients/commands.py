"""Runs the `tally` command in the tests' process."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer import Typer
from typer.main import get_command
from typer.testing import CliRunner, Result

from libs.deployment.settings import DeploymentAddresses
from libs.local_stack.supervisor import Supervisor
from services.cli.__main__ import PLACES, app, import_command


def environment(deployment: DeploymentAddresses) -> dict[str, str]:
    """Return the settings by which a command finds a deployment."""
    return {
        "TALLY_KAFKA_BOOTSTRAP_SERVERS": deployment.kafka,
        "TALLY_VALKEY_URL": deployment.valkey,
        "TALLY_NAMESPACE": deployment.namespace,
        "TALLY_PARTITIONS": str(deployment.partitions),
        "TALLY_STORAGE_URL": deployment.storage_url,
    }


def use_deployment(monkeypatch: pytest.MonkeyPatch, deployment: DeploymentAddresses) -> None:
    """Run the test's commands on `deployment`."""
    for name, value in environment(deployment).items():
        monkeypatch.setenv(name, value)


def command_tree() -> Any:
    """Return the group of all commands, which imports them otherwise when they are used."""
    tree: Any = get_command(app)
    tree.commands |= {name: import_command(name) for name in PLACES}
    return tree


async def run(*arguments: str | Path, of: Typer = app, env: Mapping[str, str | None] | None = None) -> Result:
    """Run a command in a thread, as it starts an event loop of its own; None in `env` removes a variable."""
    return await asyncio.to_thread(CliRunner().invoke, of, [str(each) for each in arguments], env=env)


async def tally(stack: Supervisor, *arguments: str | Path) -> Result:
    """Run a command on `stack`."""
    return await run(*arguments, "--data-dir", stack.data_dir)


async def tally_json(stack: Supervisor, *arguments: str | Path) -> Any:
    """Return the JSON that a command on `stack` prints; it must succeed."""
    return printed(await tally(stack, *arguments, "--json"))


def printed(result: Result) -> Any:
    """Return the JSON that a successful command printed."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
