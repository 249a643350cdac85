"""Interface of the stack's servers, and external servers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from libs.local_stack import errors, ports
from libs.local_stack.child_process import POLL_S, Process
from libs.local_stack.errors import StackError


class AwayServer(NamedTuple):
    """A server that does not answer; with `refusal`, it refuses the user or password, and this is its error."""

    address: str
    refusal: str = ""


class Server(Protocol):
    """Kafka or Valkey, wherever it runs. Data and address persist across stop, kill and start."""

    name: str
    address: str

    @property
    def pid(self) -> int | None:
        """Process id; None if not running, or not a process of this machine."""

    async def start(self) -> None:
        """Start the server and wait until it responds. Raises `StackError`."""

    async def stop(self) -> None:
        """Stop the server cleanly and wait for its end."""

    async def kill(self) -> None:
        """Kill the server as a crash would and wait for its end."""


async def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """Servers that clients reach under one address; `form` completes the group once each of them responds."""

    members: Sequence[Server]
    address: str
    form: Callable[[], Coroutine[Any, Any, None]] = _nothing


def alone(server: Server) -> ServerGroup:
    return ServerGroup((server,), server.address)


class External:
    """External server, given by a setting; never started or stopped by the stack."""

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
    """Start `process` and wait until it responds on `port`.

    Raises `StackError` if it ends or takes longer than `timeout_s`; it is not running then.
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
            raise _startup_error(process, port)
        if time.monotonic() > deadline:
            await process.kill()
            raise errors.start_failed(process.name, process.log, f"no answer in {timeout_s:g} s")
        await asyncio.sleep(POLL_S)


def _startup_error(process: Process, port: int) -> StackError:
    output = process.log_since_start()
    if "No space left on device" in output or "Disk quota exceeded" in output:
        return errors.disk_full(process.log.parent)
    if "Address already in use" in output:
        return errors.port_in_use(port)
    return errors.start_failed(process.name, process.log, f"ended with {process.exit_code}")
