"""Interface of the stack's servers, and external servers."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from libs.concurrency.tasks import becomes_true
from libs.local_stack import errors, ports
from libs.local_stack.child_process import POLL_S, Process, Reaper, Watched
from libs.local_stack.errors import StackError


class AwayServer(NamedTuple):
    """A server that does not answer; with `refusal`, it refuses the user or password, and this is its error; with
    `error`, it answers every command with this."""

    address: str
    refusal: str = ""
    error: str = ""


class Server(Watched, Protocol):
    """Kafka or Valkey, wherever it runs. Data and address persist across stop, kill and start.

    `start` returns when it responds, or raises `StackError`. `pid` is None also for one of another machine.
    """

    name: str
    address: str


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


Answers = Callable[[str], Coroutine[Any, Any, bool]]
"""Returns whether a server responds at an address."""
ANSWERS_S: Final = 5.0
"""Time in which an external server must answer: one request may find it busy."""


class External:
    """External server, given by a setting; never started or stopped by the stack."""

    pid = exit_code = None

    def __init__(self, name: str, address: str, setting: str, answers: Answers) -> None:
        self.name = name
        self.address = address
        self._setting = setting
        self._answers = answers

    async def start(self) -> None:
        if not await becomes_true(lambda: self._answers(self.address), ANSWERS_S):
            raise errors.server_away(self.name.capitalize(), self.address, self._setting)

    async def stop(self) -> None:
        pass

    async def kill(self) -> None:
        raise StackError("external_server", f"{self.name} is not ours to kill: unset {self._setting}.")


class NativeServer(Process):
    """Server as a child process, which has started once it `answers` at its address."""

    def __init__(
        self,
        name: str,
        address: str,
        log: Path,
        reaper: Reaper,
        answers: Answers,
        *,
        timeout_s: float,
        grace_s: float = 10.0,
    ) -> None:
        super().__init__(name, (), reaper=reaper, log=log, grace_s=grace_s)
        self.address = address
        self._server_log = log
        self._answers = answers
        self._timeout_s = timeout_s

    async def _run(self, command: Sequence[str], port: int, cwd: Path | None = None) -> None:
        """Start a process, and wait until it answers.

        Raises `StackError` if it ends or takes longer than `timeout_s`; it is not running then.
        """
        if not ports.is_free(port):
            raise errors.port_in_use(port)
        self.command, self._cwd = list(command), cwd
        try:
            self._spawn()
        except OSError as error:
            raise errors.from_os_error(error, self._server_log) from error
        deadline = time.monotonic() + self._timeout_s
        while not await self._answers(self.address):
            if self.exit_code is not None:
                raise self._startup_error(port)
            if time.monotonic() > deadline:
                await self.kill()
                raise errors.start_failed(self.name, self._server_log, f"no answer in {self._timeout_s:g} s")
            await asyncio.sleep(POLL_S)

    def _startup_error(self, port: int) -> StackError:
        output = self.log_since_start()
        if "No space left on device" in output or "Disk quota exceeded" in output:
            return errors.disk_full(self._server_log.parent)
        if "Address already in use" in output:
            return errors.port_in_use(port)
        return errors.start_failed(self.name, self._server_log, f"ended with {self.exit_code}")
