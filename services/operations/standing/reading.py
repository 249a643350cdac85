"""A stack looked at from outside, with the processes of `tally up`."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from libs.kafka.log import LogReader
from libs.standing.lookout import Lookout
from libs.standing.status import Part, Status
from libs.storage.store import open_store
from libs.views.functions import open_valkey
from services.operations.connect import Stack

METRICS_TIMEOUT_S: Final = 2.0
PART_UP: Final = "tally_projector_part_up"


async def read_status(stack: Stack) -> Status:
    """One look. Raises `LogUnavailable`, `LogChanged`, `ViewsUnavailable` and `StorageUnavailable`."""
    async with open_lookout(stack) as lookout:
        parts, urls = parts_of(stack.description.get("pids", {})), stack.description.get("metrics_urls", {})
        failing = await _failing(urls["projector"]) if "projector" in urls else []
        projector = [replace(part, failing=failing) if part.name == "projector" else part for part in parts]
        return await lookout.look(projector)


@asynccontextmanager
async def open_lookout(stack: Stack) -> AsyncIterator[Lookout]:
    valkey = open_valkey(stack.valkey)
    try:
        async with LogReader(stack.kafka_settings) as reader:
            yield Lookout(reader, valkey, open_store(stack.storage_url), stack.namespace, stack.partitions)
    finally:
        await valkey.close()


def parts_of(pids: Mapping[str, int]) -> list[Part]:
    return [Part(name, pid, _alive(pid)) for name, pid in pids.items()]


async def _failing(metrics_url: str) -> list[str]:
    """The projector's tasks that do not run, by its metrics; none where it does not answer."""
    try:
        async with httpx.AsyncClient(timeout=METRICS_TIMEOUT_S, trust_env=False) as client:
            answer = (await client.get(metrics_url)).raise_for_status()
        families = list(text_string_to_metric_families(answer.text))
    except (httpx.HTTPError, ValueError):
        return []
    samples = [sample for family in families for sample in family.samples]
    return sorted(one.labels["part"] for one in samples if one.name == PART_UP and one.value == 0)


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
