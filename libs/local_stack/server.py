"""What every kind of server of the stack can do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from libs.local_stack import errors, ports
from libs.local_stack.child_process import POLL_S, Process
from libs.local_stack.errors import StackError


class Server(Protocol):
    """Kafka or Valkey, wherever it runs. Its data and its address outlive a stop, a kill and a start."""

    name: str
    address: str

    @property
    def pid(self) -> int | None:
        """None where it is not running, or is not a process of this machine."""

    async def start(self) -> None:
        """Returns when it answers; `StackError` where it cannot."""

    async def stop(self) -> None:
        """Asks it to end, and waits until it has."""

    async def kill(self) -> None:
        """Ends it as a crash would, and waits until it has."""


class External:
    """A server that others run, named by a setting: never started or stopped from here."""

    pid = None

    def __init__(self, name: str, address: str, setting: str, answers: Callable[[str], Awaitable[bool]]) -> None:
        self.name = name
        self.address = address
        self._setting = setting
        self._answers = answers

    async def start(self) -> None:
        if not await self._answers(self.address):
            raise errors.server_away(self.name.capitalize(), self.address, self._setting)

    async def stop(self) -> None:
        pass

    async def kill(self) -> None:
        raise StackError(
            "external_server", f"{self.name} is not ours to kill: unset {self._setting}.", errors.Exit.BAD_USAGE
        )


async def start_and_wait(
    process: Process, port: int, answers: Callable[[], Awaitable[bool]], timeout_s: float
) -> None:
    """Starts `process` and returns when it answers on `port`.

    Where it ends first, or takes longer than `timeout_s`, it is gone when the `StackError` comes.
    """
    if not ports.is_free(port):
        raise errors.port_in_use(port)
    try:
        process.start()
    except OSError as error:
        raise errors.from_os_error(error, process.log) from error
    deadline = time.monotonic() + timeout_s
    while not await answers():
        if process.exit_code is not None:
            raise _why_it_ended(process, port)
        if time.monotonic() > deadline:
            await process.kill()
            raise errors.start_failed(process.name, process.log, f"no answer in {timeout_s:g} s")
        await asyncio.sleep(POLL_S)


def _why_it_ended(process: Process, port: int) -> StackError:
    said = process.log_since_start()
    if "No space left on device" in said or "Disk quota exceeded" in said:
        return errors.disk_full(process.log.parent)
    if "Address already in use" in said:
        return errors.port_in_use(port)
    return errors.start_failed(process.name, process.log, f"ended with {process.exit_code}")
