"""A deployment of two partitions on the real servers, with an object store of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from libs.contracts.topics import Topic, topics_of, votes_topic
from libs.contracts.votes_log import VotesLog
from libs.deployment.identity import check_deployment, create_deployment
from libs.deployment.identity_guard import DeploymentGuard
from libs.kafka.reader import LogReader
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.storage.object_store import Store, open_store
from libs.views.valkey.client import Valkey
from libs.views.valkey.function_loading import load_functions, open_valkey


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
        return DeploymentGuard(self.settings, self.reader(), self._log(), self.store, self.valkey, check_s=0.2)

    async def create(self) -> None:
        await create_deployment(self.settings, self._log(), self.store)

    async def check(self) -> None:
        await check_deployment(self.settings, self._log(), self.store)

    def _log(self) -> VotesLog:
        return VotesLog(self.namespace, self.partitions)

    async def add_partitions(self, total: int) -> None:
        grown = [topic.name for topic in topics_of(self.namespace, self.partitions)[:2]]
        async with self._admin() as admin:
            await admin.create_partitions({name: NewPartitions(total_count=total) for name in grown})

    async def delete_votes(self) -> None:
        async with self._admin() as admin:
            await admin.delete_topics([self.votes.name])

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(**connection(self.settings))
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()


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
