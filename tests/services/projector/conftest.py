"""Deployments for tests of the process managers."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.local_stack.servers import Servers
from tests.services.projector.projector_environment import ProjectorEnvironment, open_environment


@pytest.fixture(scope="module")
async def env(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProjectorEnvironment]:
    """With a projector that runs."""
    namespace, storage = f"t{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("objects")
    kafka, valkey = servers.addresses.kafka, servers.addresses.valkey
    async with open_environment(kafka, valkey, namespace, storage) as env, env.projecting():
        yield env


@pytest.fixture
async def own(
    kafka: str, valkey_address: str, namespace: str, tmp_path: Path
) -> AsyncIterator[ProjectorEnvironment]:
    """Of this test alone, whose projector runs when the test says so."""
    async with open_environment(kafka, valkey_address, namespace, tmp_path) as env:
        yield env
