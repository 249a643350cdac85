"""Services as child processes of the supervisor."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from libs.local_stack.child_process import Process, Reaper
from libs.web.settings import CLOSE_S, DRAIN_S


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """Service to run; `command` runs it in the foreground, with settings in the environment.

    SIGTERM makes it drain and exit within `drain_s`.
    """

    name: str
    command: tuple[str, ...]
    drain_s: float = 10.0


def service_command(service: str) -> tuple[str, ...]:
    """Return the command of a service's process, whatever folders are in the current directory."""
    return (sys.executable, "-P", "-m", f"services.{service}")


PARTS = (
    ServiceProcess("projector", service_command("projector")),
    ServiceProcess("gateway", service_command("gateway"), drain_s=DRAIN_S + CLOSE_S + 1),
)
"""Services in the order of their start; they stop in the reverse order."""


class RunningService:
    """Service that can be restarted, with its output in `<logs>/<name>.log`."""

    def __init__(self, part: ServiceProcess, environment: Mapping[str, str], logs: Path, reaper: Reaper) -> None:
        self.name = part.name
        self.log = logs / f"{part.name}.log"
        self._drain_s = part.drain_s
        self._environment = environment
        self._process = Process(part.name, part.command, reaper=reaper, log=self.log)

    @property
    def pid(self) -> int | None:
        return self._process.pid

    async def start(self) -> None:
        """Start the service without waiting for its readiness."""
        self._process.start(self._environment)

    async def stop(self) -> None:
        await self._process.stop(self._drain_s)

    async def kill(self) -> None:
        await self._process.kill()
