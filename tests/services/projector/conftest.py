"""Deployments for tests of the process managers."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.local_stack.servers import Servers
from tests.services.projector.world import World, open_world


@pytest.fixture(scope="module")
async def world(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """With a projector that runs."""
    namespace, storage = f"t{uuid.uuid4().hex[:8]}", tmp_path_factory.mktemp("objects")
    kafka, valkey = servers.addresses.kafka, servers.addresses.valkey
    async with open_world(kafka, valkey, namespace, storage) as world, world.projecting():
        yield world


@pytest.fixture
async def own(kafka: str, valkey_address: str, namespace: str, tmp_path: Path) -> AsyncIterator[World]:
    """Of this test alone, whose projector runs when the test says so."""
    async with open_world(kafka, valkey_address, namespace, tmp_path) as world:
        yield world
