"""A command's access to its deployment: checked first, so nothing is written elsewhere than the services write."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from libs.deployment.identity import check_deployment, examine_deployment
from libs.kafka.settings import KafkaSettings
from libs.kafka.writer import LogWriter
from libs.storage.store import open_store
from libs.tally.errors import TallyError


@dataclass(frozen=True, slots=True)
class Deployment:
    """Where the servers of one deployment are. `description` is stack.json's contents, {} for external servers."""

    kafka: str
    valkey: str
    namespace: str
    partitions: int
    storage_url: str
    description: dict[str, Any]

    @property
    def kafka_settings(self) -> KafkaSettings:
        return KafkaSettings(kafka_bootstrap_servers=self.kafka)


async def find_problems(stack: Deployment) -> list[TallyError]:
    """What keeps services from serving on this log. Raises `LogUnavailable` and `StorageUnavailable`."""
    store = open_store(stack.storage_url)
    found = await examine_deployment(stack.kafka_settings, stack.namespace, stack.partitions, store)
    return found.problems


async def check_deployment_of(stack: Deployment) -> None:
    """Raise the first of what `find_problems` finds."""
    await check_deployment(stack.kafka_settings, stack.namespace, stack.partitions, open_store(stack.storage_url))


@asynccontextmanager
async def open_log(stack: Deployment) -> AsyncIterator[LogWriter]:
    """Checks the deployment, and gives what appends to its logs. Raises as `check_deployment_of`."""
    await check_deployment_of(stack)
    log = LogWriter(stack.kafka_settings)
    await log.start()
    try:
        yield log
    finally:
        await log.stop()
