"""A deployment for the commands that run in the test's process."""

from pathlib import Path

import pytest

from libs.deployment.settings import DeploymentAddresses
from tests.support.clients import commands


@pytest.fixture
def deployment(
    kafka: str, valkey_address: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> DeploymentAddresses:
    """Run the test's commands in a namespace of two partitions, whose topics are not created yet."""
    addresses = DeploymentAddresses(kafka, valkey_address, namespace, 2, str(tmp_path / "objects"), {})
    commands.use_deployment(monkeypatch, addresses)
    return addresses
