"""What an operator is shown of the whole deployment, read once for all who ask."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from libs.monitoring.collector import StatusCollector
from libs.monitoring.problems import Problem, as_json
from libs.monitoring.projectors import failing_tasks
from libs.monitoring.status import PartitionStatus, Status, moment
from libs.tally.errors import TallyError
from libs.telemetry.redaction import redacted
from libs.web.health import Check, reasons_of

APART_S: Final = 1.0
"""Looks begin a second apart or more, and only while somebody asks."""
PATIENCE_S: Final = 4.0
"""How long a look is waited for; then what the last one found is answered. It goes on by itself."""
WAY_OUT: Final = "what follows was read before that; `tally doctor` says more"
NOTHING_READ: Final[dict[str, Any]] = {
    "at": None, "folds": {}, "totals": {}, "generations": [], "sealed": [], "problems": [], "notes": [],
}  # fmt: skip


class StatusCache:
    """The latest look. While a server is away that stays, and what is away is said beside it."""

    def __init__(
        self,
        collector: StatusCollector,
        checks: Mapping[str, Check],
        version: str,
        projector_urls: Sequence[str] = (),
    ) -> None:
        """`checks` are those of `/readyz`; `projector_urls` have the metrics of projectors."""
        self._projector_urls = projector_urls
        self._collector = collector
        self._checks = checks
        self._version = version
        self._status: Status | None = None
        self._looking: asyncio.Task[str] | None = None
        self._began = 0.0

    async def read(self, account: str) -> dict[str, Any]:
        """For a caller of this account, which alone sees which of its contests are sealed."""
        looking = self._latest()
        reasons, _ = await asyncio.gather(reasons_of(self._checks), asyncio.wait({looking}, timeout=PATIENCE_S))
        away = {name: reason for name, reason in reasons.items() if reason}
        error = looking.result() if looking.done() else f"could not be read within {PATIENCE_S:g} s"
        if error:
            away["status"] = error
        shown = self._shown(account)
        problems = [asdict(Problem("away", name, reason, WAY_OUT)) for name, reason in away.items()]
        return {
            "now": moment(time.time_ns() // 1_000_000),
            "version": self._version,
            "dependencies": {name: reason or "ready" for name, reason in reasons.items()},
            **shown,
            "problems": problems + shown["problems"],
        }

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    def _latest(self) -> asyncio.Task[str]:
        """The look that is under way, or was begun just now."""
        now = time.monotonic()
        if self._looking is None or (self._looking.done() and now - self._began >= APART_S):
            self._began = now
            self._looking = asyncio.create_task(self._look())
        return self._looking

    async def _look(self) -> str:
        """Why nothing could be read, or ""."""
        try:
            failing = await failing_tasks(self._projector_urls)
            self._status = await self._collector.look(
                [PartitionStatus("projector", 0, alive=True, failing=failing)]
            )
        except TallyError as error:
            return redacted(str(error))
        return ""

    def _shown(self, account: str) -> dict[str, Any]:
        """As `tally status --json`, but for the processes of `tally up`, which only it knows."""
        if self._status is None:
            return NOTHING_READ
        own = [sealed for sealed in self._status.sealed if sealed.account == account]
        shown = as_json(replace(self._status, sealed=own))
        del shown["parts"]
        return shown
