"""Caches the deployment's status for operators, read once for all concurrent requests."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from libs.monitoring.collector import StatusCollector
from libs.monitoring.health_problems import Problem, as_json
from libs.monitoring.projectors import failing_tasks
from libs.monitoring.status import ProcessStatus, Status, moment
from libs.tally.errors import TallyError
from libs.telemetry.redaction import redacted
from libs.web.health import Check, reasons_of

APART_S: Final = 1.0
"""Least time between two reads, which only requests start."""
PATIENCE_S: Final = 4.0
"""Time that a request waits for a read; then it returns the last status, and the read continues."""
REMEDY: Final = "the rest was read before that; `tally doctor` shows more"
NOTHING_READ: Final[dict[str, Any]] = {
    "at": None, "projections": {}, "totals": {}, "generations": [], "sealed": [], "problems": [], "notes": [],
}  # fmt: skip


class StatusCache:
    """The latest status. While a server is unavailable, it stays, with a problem that names the server."""

    def __init__(
        self,
        collector: StatusCollector,
        checks: Mapping[str, Check],
        version: str,
        projector_urls: Sequence[str] = (),
        command_options: str = "",
    ) -> None:
        """Configure the cache: `checks` are those of `/readyz`, `projector_urls` the projectors' metrics."""
        self._projector_urls = projector_urls
        self._command_options = command_options
        self._collector = collector
        self._checks = checks
        self._version = version
        self._status: Status | None = None
        self._reading: asyncio.Task[str] | None = None
        self._began = 0.0

    async def read(self, account: str) -> dict[str, Any]:
        """Return the status, with the sealed contests and the titles of this account only."""
        reading = self._latest()
        reasons, _ = await asyncio.gather(reasons_of(self._checks), asyncio.wait({reading}, timeout=PATIENCE_S))
        away = {name: reason for name, reason in reasons.items() if reason}
        error = reading.result() if reading.done() else f"could not be read within {PATIENCE_S:g} s"
        if error:
            away["status"] = error
        shown = self._shown(account)
        problems = [asdict(Problem("away", name, reason, REMEDY)) for name, reason in away.items()]
        return {
            "now": moment(time.time_ns() // 1_000_000),
            "version": self._version,
            "command_options": self._command_options,
            "dependencies": {name: reason or "ready" for name, reason in reasons.items()},
            **shown,
            "problems": problems + shown["problems"],
        }

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    def _latest(self) -> asyncio.Task[str]:
        """Return the running or latest read, or start one."""
        now = time.monotonic()
        if self._reading is None or (self._reading.done() and now - self._began >= APART_S):
            self._began = now
            self._reading = asyncio.create_task(self._read())
        return self._reading

    async def _read(self) -> str:
        """Read the status; return the error message, or ""."""
        try:
            failing = await failing_tasks(self._projector_urls)
            self._status = await self._collector.collect(
                [ProcessStatus("projector", 0, alive=True, failing=failing)]
            )
        except TallyError as error:
            return redacted(str(error))
        return ""

    def _shown(self, account: str) -> dict[str, Any]:
        """Render the status as `tally status --json`, without the processes of `tally up`."""
        if self._status is None:
            return NOTHING_READ
        own = [sealed for sealed in self._status.sealed if sealed.account == account]
        titles = {key: one for key, one in self._status.titles.items() if one.account == account}
        shown = as_json(replace(self._status, sealed=own, titles=titles))
        del shown["parts"]
        return shown
