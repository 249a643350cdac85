"""A command's access to its deployment, checked first so that it never writes to a different log or store."""

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
    """Addresses of a deployment's servers. `description` is the content of stack.json, {} for external servers."""

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
    """Return the problems that stop services. Raises `LogUnavailable` and `StorageUnavailable`."""
    store = open_store(stack.storage_url)
    found = await examine_deployment(stack.kafka_settings, stack.namespace, stack.partitions, store)
    return found.problems


async def check_deployment_of(stack: Deployment) -> None:
    """Raise the first problem of the deployment that retries do not solve, as `check_deployment` does."""
    await check_deployment(stack.kafka_settings, stack.namespace, stack.partitions, open_store(stack.storage_url))


@asynccontextmanager
async def open_log(stack: Deployment) -> AsyncIterator[LogWriter]:
    """Check the deployment, and yield a writer of its logs. Raises as `check_deployment_of`."""
    await check_deployment_of(stack)
    log = LogWriter(stack.kafka_settings)
    await log.start()
    try:
        yield log
    finally:
        await log.stop()
