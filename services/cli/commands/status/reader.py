"""Reads the status of a deployment, with the processes of `tally up`."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson
import psutil

from libs.contracts.dataclass_json import HIDDEN
from libs.deployment.deployment import Deployment
from libs.monitoring.collector import StatusCollector, failing_tasks
from libs.monitoring.health_problems import as_json
from libs.monitoring.status import ProcessStatus, Status, moment
from libs.tally.errors import TallyError
from libs.telemetry.redaction import redacted

EVERY_S: Final = 1.0

Description = Callable[[], Mapping[str, Any]]
"""Returns the current contents of stack.json."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A status; `everything`: all partitions are shown, `repeated`: others follow."""

    status: Status
    everything: bool = False
    repeated: bool = False

    def canonical(self) -> bytes:
        return orjson.dumps(as_json(self.status))


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A failed reading, and the last successful one."""

    at: str | None
    error: str
    last: Reading | None = field(metadata=HIDDEN)


async def read_status(deployment: Deployment) -> Status:
    """Read the status once. Raises `LogUnavailable`, `LogChanged`, `ViewsUnavailable` and `StorageUnavailable`."""
    return await collector_of(deployment).collect(await read_parts(deployment.description))


def collector_of(deployment: Deployment) -> StatusCollector:
    return StatusCollector(
        deployment.reader, deployment.valkey, deployment.store, deployment.namespace, deployment.votes
    )


async def readings(
    deployment: Deployment, description: Description, *, everything: bool = False
) -> AsyncGenerator[Reading | Unreadable, None]:
    """Yield a reading every second, without end."""
    collector, last = collector_of(deployment), None
    while True:
        began = time.monotonic()
        try:
            last = Reading(await collector.collect(await read_parts(description())), everything, repeated=True)
            yield last
        except TallyError as error:
            yield Unreadable(moment(time.time_ns() // 1_000_000), redacted(str(error)), last)
        await asyncio.sleep(max(0.0, began + EVERY_S - time.monotonic()))


def parts_of(pids: Mapping[str, int]) -> list[ProcessStatus]:
    return [ProcessStatus(name, pid, _alive(pid)) for name, pid in pids.items()]


async def read_parts(description: Mapping[str, Any]) -> list[ProcessStatus]:
    """Return the processes in stack.json with their failing tasks; external servers are not included."""
    parts = parts_of(description.get("pids", {}))
    urls = description.get("metrics_urls", {})
    projectors = {name: url for name, url in urls.items() if name.startswith("projector")}
    found = await asyncio.gather(*(failing_tasks([url]) for url in projectors.values()))
    failing = dict(zip(projectors, found, strict=True))
    return [replace(part, failing=failing.get(part.name, part.failing)) for part in parts]


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
