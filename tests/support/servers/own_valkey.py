"""A Valkey server for the tests of one file: functions and settings of the run's server belong to all workers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from libs.local_stack.child_process import Reaper
from libs.local_stack.ports import free_ports
from libs.local_stack.valkey import NativeValkey


@asynccontextmanager
async def own_valkey(folder: Path) -> AsyncIterator[NativeValkey]:
    """Start a server with its data in `folder`, and kill it afterwards."""
    reaper, (port,) = Reaper(), free_ports(1)
    server = NativeValkey(port, folder, folder / "log", reaper, fsync="no")
    await server.start()
    try:
        yield server
    finally:
        await server.kill()
        reaper.close()
