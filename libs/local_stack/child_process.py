"""Child processes that end with their parent."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NoReturn, Protocol

from libs.local_stack import reaper
from libs.telemetry.environment_settings import OF_FILE

POLL_S = 0.02
WATCH_S = 0.05
LOG_LIMIT_BYTES = 20 * 1024 * 1024
FIRST_DELAY_S, LONGEST_DELAY_S = 0.2, 10.0
STABLE_S = 5.0
"""Seconds after its start from which the end of a process is no failure to start."""


class Watched(Protocol):
    """A process that can be started again."""

    @property
    def pid(self) -> int | None:
        """Process id; None while it does not run."""

    @property
    def exit_code(self) -> int | None:
        """As of `Process`; None also if it is not known."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def kill(self) -> None: ...


async def keep_running(start: Callable[[float], Awaitable[None]], is_down: Callable[[], bool]) -> NoReturn:
    """Call `start` whenever the process is down, with the delay in seconds that it must wait for before."""
    delay_s, born = 0.0, time.monotonic()
    while True:
        await asyncio.sleep(WATCH_S)
        if is_down():
            delay_s = restart_delay_s(time.monotonic() - born, delay_s)
            await start(delay_s)
            born = time.monotonic()


def restart_delay_s(ran_s: float, last_delay_s: float) -> float:
    """Return the delay of a restart: none after a run of `STABLE_S`; it doubles as long as runs are shorter."""
    return 0.0 if ran_s >= STABLE_S else min(max(FIRST_DELAY_S, 2 * last_delay_s), LONGEST_DELAY_S)


def end_reason(exit_code: int | None) -> str:
    """Return in words how a process ended, by its exit code as of `Process`."""
    if exit_code is None:
        return "for an unknown reason"
    if exit_code >= 0:
        return f"with exit code {exit_code}"
    with suppress(ValueError):
        return f"by {signal.Signals(-exit_code).name}"
    return f"by signal {-exit_code}"


class Reaper:
    """Client of `reaper.py`, which stops all watched children when this process ends, even by SIGKILL.

    The only gap: this process is killed in the millisecond between starting a child and `watch`.
    """

    def __init__(self, keep_open: Sequence[int] = (), announcements: Sequence[Path] = ()) -> None:
        """Start the reaper.

        `keep_open`: descriptors (locks) that it holds until all watched processes have ended. `announcements`:
        files that announce the stack, deleted first.
        """
        self._child = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", reaper.__file__, str(os.getpid()), *map(str, announcements)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=tuple(keep_open),
        )

    @property
    def pid(self) -> int:
        return self._child.pid

    def watch(self, pid: int) -> None:
        started = reaper.start_time(pid)
        if started is not None:
            self._send(f"+{pid} {started!r}\n")

    def forget(self, pid: int) -> None:
        self._send(f"-{pid}\n")

    def close(self) -> None:
        """Stop all watched processes and wait for their end."""
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.close()
        self._child.wait()

    def _send(self, line: str) -> None:
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.write(line.encode())
            self._child.stdin.flush()


class Process:
    """Child process in its own session, so that Ctrl-C reaches only the parent.

    It logs to a file, or without `log` as the parent. `environment` is added to the parent's; its settings replace
    those from files. `grace_s` is the time that it may take to end.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        reaper: Reaper,
        log: Path | None = None,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        grace_s: float = 10.0,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self._reaper = reaper
        self._cwd = cwd
        self._own = dict(environment or {})
        self._grace_s = grace_s
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int | None:
        """Process id; None before the start and after the end."""
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    @property
    def exit_code(self) -> int | None:
        """Exit code; None before the end; the negative number of the signal that ended it."""
        return None if self._child is None else self._child.poll()

    async def start(self) -> None:
        """Start the process, without waiting until it is ready."""
        self._spawn()

    def _spawn(self) -> None:
        assert self.pid is None, f"{self.name} runs already"
        replaced = {name + OF_FILE for name in self._own}
        with self._output() as output:
            self._child = subprocess.Popen(  # noqa: S603
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output and subprocess.STDOUT,
                cwd=self._cwd,
                env={name: value for name, value in os.environ.items() if name not in replaced} | self._own,
                start_new_session=True,
            )
        self._reaper.watch(self._child.pid)

    @contextmanager
    def _output(self) -> Iterator[BinaryIO | None]:
        if self.log is None:
            yield None
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_LIMIT_BYTES:
                self.log.replace(self.log.with_name(self.log.name + ".1"))
        with self.log.open("ab") as output:
            self._log_start = output.tell()
            yield output

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL to the whole group after `grace_s`."""
        if self.pid is not None:
            self._signal(signal.SIGTERM)
            await self._gone_within(self._grace_s)
            await self._end()

    async def kill(self) -> None:
        """Send SIGKILL to the whole group and wait for its end."""
        if self.pid is not None:
            await self._end()

    def log_since_start(self) -> str:
        """Return the last 64 KiB of this run's output in the log file."""
        assert self.log is not None
        with suppress(FileNotFoundError), self.log.open("rb") as log:
            log.seek(max(self._log_start, self.log.stat().st_size - 64 * 1024))
            return log.read().decode(errors="replace")
        return ""

    async def _end(self) -> None:
        """Kill a child that runs or has just ended: later its pid may belong to another process."""
        assert self._child is not None
        self._signal(signal.SIGKILL)
        await self._gone_within(10.0)
        self._reaper.forget(self._child.pid)

    def _signal(self, number: signal.Signals) -> None:
        assert self._child is not None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)

    async def _gone_within(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.pid is not None:
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(POLL_S)
