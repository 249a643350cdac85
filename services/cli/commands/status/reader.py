"""Reads the status of a stack, with the processes of `tally up`."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import psutil

from libs.deployment.deployment import Deployment
from libs.kafka.reader import LogReader
from libs.monitoring.collector import StatusCollector
from libs.monitoring.projectors import failing_tasks
from libs.monitoring.status import PartitionStatus, Status
from libs.storage.store import open_store
from libs.views.functions import open_valkey


async def read_status(stack: Deployment) -> Status:
    """Read the status once. Raises `LogUnavailable`, `LogChanged`, `ViewsUnavailable` and `StorageUnavailable`."""
    async with open_collector(stack) as collector:
        return await collector.collect(await read_parts(stack.description))


@asynccontextmanager
async def open_collector(stack: Deployment) -> AsyncIterator[StatusCollector]:
    valkey = open_valkey(stack.valkey)
    try:
        async with LogReader(stack.kafka_settings) as reader:
            yield StatusCollector(reader, valkey, open_store(stack.storage_url), stack.namespace, stack.partitions)
    finally:
        await valkey.close()


def parts_of(pids: Mapping[str, int]) -> list[PartitionStatus]:
    return [PartitionStatus(name, pid, _alive(pid)) for name, pid in pids.items()]


async def read_parts(description: Mapping[str, Any]) -> list[PartitionStatus]:
    """Return the processes in stack.json with their failing tasks; external servers are not included."""
    parts = parts_of(description.get("pids", {}))
    urls = description.get("metrics_urls", {})
    failing = await failing_tasks([urls["projector"]] if "projector" in urls else [])
    return [replace(part, failing=failing) if part.name == "projector" else part for part in parts]


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
