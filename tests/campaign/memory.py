"""Faults of memory: a Valkey at `maxmemory`, a service whose requests are refused or whose cgroup has no room."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psutil
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.campaign.evidence import Choose, expect, needed
from tests.campaign.stage import Stage
from tests.support.eventually import eventually

CGROUPS: Final = Path("/sys/fs/cgroup/memory")
"""Version 1, as root."""
USED: Final = 0.95
"""Share of the used memory that `maxmemory` allows."""
ROOM_BYTES: Final = 64 << 10
"""Further memory that a cgroup gives."""
KILLED_S: Final = 5.0
"""Time in which a service needs more, unless another fault keeps it from working."""


@asynccontextmanager
async def valkey_full(choose: Choose, stage: Stage) -> AsyncIterator[None]:
    """Let servers of Valkey refuse each write that needs memory, as they do at `maxmemory` without eviction."""
    names = await choose(stage)
    servers = [Redis.from_url(stage.stack.server(name).address, socket_timeout=5) for name in names]
    try:
        with needed(RedisError, OSError):
            before = [await _refused(server) for server in servers]
            for server in servers:
                used = (await server.info("memory"))["used_memory"]
                await server.config_set("maxmemory", int(used * USED))
        yield
        with needed(RedisError, OSError):
            expect(sum([await _refused(server) for server in servers]) > sum(before), f"{names} had room")
    finally:
        for server in servers:
            with suppress(RedisError, OSError):  # it is down, and starts without the limit
                await server.config_set("maxmemory", 0)
            await server.aclose()


async def _refused(server: Redis) -> int:
    """Return the number of commands that were refused for want of memory since the server's start."""
    errors: dict[str, Any] = (await server.info("errorstats")).get("errorstat_OOM", {})
    return int(errors.get("count", 0))


@asynccontextmanager
async def memory_short(choose: Choose, stage: Stage) -> AsyncIterator[None]:
    """Refuse services one of several large requests for memory: they meet `MemoryError`, or end."""
    names = await choose(stage)
    pages = [stage.page(name) for name in names]
    before = sum(page.memory_refused for page in pages)
    for page, process in zip(pages, _processes(stage, names), strict=True):
        page.memory_short = process.pid
    try:
        yield
        expect(sum(page.memory_refused for page in pages) > before, f"{names} needed no memory")
    finally:
        for page in pages:
            page.memory_short = 0


@asynccontextmanager
async def cgroup_full(choose: Choose, stage: Stage) -> AsyncIterator[None]:
    """Put services into a cgroup without room: the kernel ends them as soon as they need memory."""
    names = await choose(stage)
    processes = _processes(stage, names)
    group = CGROUPS / f"campaign-{os.getpid()}-{'-'.join(names)}"
    group.mkdir()
    try:
        with needed(OSError):
            (group / "memory.limit_in_bytes").write_text(str(ROOM_BYTES))
            for process in processes:
                (group / "cgroup.procs").write_text(str(process.pid))
        with suppress(AssertionError):
            await eventually(lambda: _killed(group), KILLED_S)
        yield
        expect(_killed(group) > 0, "nobody needed memory")
    finally:
        for process in processes:
            with suppress(OSError):  # it has ended
                (CGROUPS / "cgroup.procs").write_text(str(process.pid))
        await eventually(lambda: _removed(group))


def has_cgroups() -> bool:
    return os.access(CGROUPS / "cgroup.procs", os.W_OK)


def _killed(group: Path) -> int:
    counts = dict(line.split() for line in (group / "memory.oom_control").read_text().splitlines())
    return int(counts["oom_kill"])


def _removed(group: Path) -> bool:
    with suppress(OSError):
        group.rmdir()
    return not group.exists()


def _processes(stage: Stage, names: Sequence[str]) -> list[psutil.Process]:
    pids = stage.pids(names)
    expect(all(pids), f"{names} are down already")
    return [psutil.Process(pid) for pid in pids]
