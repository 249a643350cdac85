"""Deployments to export, and an empty one to import into."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from libs.contracts.topics import VotesLog
from libs.deployment.identity import create_deployment
from libs.deployment.settings import DeploymentAddresses
from libs.kafka.security import connection
from libs.local_stack.servers import Servers
from libs.storage.object_store import open_store
from tests.libs.backup.filled_deployment import PARTITIONS, Site


@asynccontextmanager
async def a_deployment(servers: Servers, objects: Path) -> AsyncIterator[Site]:
    kafka, namespace = servers.addresses.kafka, f"t{uuid.uuid4().hex[:8]}"
    stack = DeploymentAddresses(kafka, servers.addresses.valkey, namespace, PARTITIONS, str(objects), {})
    await create_deployment(stack.kafka_settings, VotesLog(namespace, PARTITIONS), open_store(stack.storage_url))
    async with AIOKafkaProducer(**connection(stack.kafka_settings), acks="all") as producer:
        yield Site(stack, producer)


@pytest.fixture(scope="module")
async def filled(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """One without writers."""
    async with a_deployment(servers, tmp_path_factory.mktemp("objects")) as deployment:
        await deployment.fill()
        yield deployment


@pytest.fixture
async def growing(servers: Servers, tmp_path: Path) -> AsyncIterator[Site]:
    """One of the test's own, with a few records."""
    async with a_deployment(servers, tmp_path / "objects") as deployment:
        await deployment.fill()
        yield deployment


@pytest.fixture
def target(filled: Site, tmp_path: Path) -> Site:
    """A namespace without topics on the same servers, with an object store of its own."""
    return filled.beside(namespace=f"t{uuid.uuid4().hex[:8]}", storage_url=str(tmp_path / "objects of the target"))
