"""A deployment of two partitions on the real servers, with an object store of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from aiokafka.admin import NewPartitions

from libs.contracts.topics import Topic, VotesLog, topics_of, votes_topic
from libs.deployment.identity import check_deployment, create_deployment
from libs.deployment.identity_guard import DeploymentGuard
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import open_admin
from libs.storage.object_store import Store, open_store
from libs.views.valkey.client import Valkey
from libs.views.valkey.function_loading import load_functions, open_valkey
from tests.support.eventually import eventually


@dataclass
class Place:
    """Settings of one process."""

    settings: KafkaSettings
    namespace: str
    partitions: int
    store: Store
    valkey: Valkey
    readers: list[LogReader] = field(default_factory=list)
    """Opened by guards, and closed at the end."""

    def reader(self) -> LogReader:
        self.readers.append(LogReader(self.settings))
        return self.readers[-1]

    @property
    def votes(self) -> Topic:
        return votes_topic(self.namespace, self.partitions)

    def beside(self, partitions: int = 0, store: Store | None = None) -> Place:
        """Another process, of the same namespace."""
        return replace(self, partitions=partitions or self.partitions, store=store or self.store)

    def guard(self) -> DeploymentGuard:
        return DeploymentGuard(self.settings, self.reader(), self.log(), self.store, self.valkey, check_s=0.2)

    async def create(self) -> None:
        await create_deployment(self.settings, self.log(), self.store)

    async def check(self) -> None:
        await check_deployment(self.settings, self.log(), self.store)

    def log(self) -> VotesLog:
        """Return the log as a process knows it that starts."""
        return VotesLog(self.namespace, self.partitions)

    async def add_partitions(self, total: int) -> None:
        grown = [topic.name for topic in topics_of(self.namespace, self.partitions)[:2]]
        async with open_admin(self.settings) as admin:
            await admin.create_partitions({name: NewPartitions(total_count=total) for name in grown})

    async def recreate_votes(self) -> None:
        """Delete the votes' topic and create it again, once its deletion has ended."""
        async with open_admin(self.settings) as admin:
            await admin.delete_topics([self.votes.name])

        async def is_created() -> bool:
            try:
                await self.create()
            except Exception:
                return False
            return True

        await eventually(is_created)


@pytest.fixture
async def place(kafka: str, valkey_address: str, namespace: str, tmp_path: Path) -> AsyncIterator[Place]:
    """Not created yet."""
    settings = KafkaSettings(kafka_bootstrap_servers=kafka, kafka_request_timeout_ms=2_000)
    valkey = open_valkey(valkey_address)
    await load_functions(valkey)
    place = Place(settings, namespace, 2, open_store(str(tmp_path / "objects")), valkey)
    yield place
    for reader in place.readers:
        await reader.close()
    await valkey.close()
