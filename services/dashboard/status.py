"""The deployment's status for operators, read once for concurrent requests: cache, response models and route."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends
from pydantic import Field, TypeAdapter
from pydantic.dataclasses import dataclass as documented
from starlette.responses import Response

from libs.contracts.catalogue_events import ApiKey
from libs.monitoring.collector import StatusCollector, failing_tasks
from libs.monitoring.health_problems import HealthProblem, StatusReport, members_of
from libs.monitoring.status import DOCUMENTED, Moment, ProcessStatus, Status
from libs.tally.errors import TallyError
from libs.telemetry.redaction import redacted
from libs.web.door.auth import Authenticator
from libs.web.door.typed_routes import Permitted, TypedRoute
from libs.web.responses import NO_STORE, json_response
from libs.web.server.health import Check, reasons_of

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
        """Return the status, with the sealed contests of this account only."""
        reading = self._latest()
        reasons, _ = await asyncio.gather(reasons_of(self._checks), asyncio.wait({reading}, timeout=PATIENCE_S))
        away = {name: reason for name, reason in reasons.items() if reason}
        error = reading.result() if reading.done() else f"could not be read within {PATIENCE_S:g} s"
        if error:
            away["status"] = error
        status = NOTHING_READ
        if self._status is not None:
            own = [sealed for sealed in self._status.sealed if sealed.account == account]
            status = members_of(replace(self._status, sealed=own))
        problems = [HealthProblem("away", name, reason, REMEDY) for name, reason in away.items()]
        found = OperationsStatus(
            now=time.time_ns() // 1_000_000,
            version=self._version,
            command_options=self._command_options,
            dependencies={name: reason or "ready" for name, reason in reasons.items()},
            **(status | {"problems": problems + status["problems"]}),
        )
        shown: dict[str, Any] = STATUS.dump_python(found, mode="json")
        return shown

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


@documented(frozen=True, slots=True, kw_only=True, config=DOCUMENTED)
class OperationsStatus(StatusReport):
    """The status of the deployment."""

    now: Moment = Field(description="Time of the response.")
    version: str = Field(description="Version of the responding code.")
    command_options: str = Field(description="Options with which commands reach this deployment; may be empty.")
    dependencies: dict[str, str] = Field(
        description="Of the gateway that responds, as in `/readyz`: `ready`, or the reason why not."
    )


STATUS: Final = TypeAdapter(OperationsStatus)


def status_router(auth: Authenticator, status: StatusCache) -> APIRouter:
    """Create the router, which requires the permission `operations`."""
    router = APIRouter(tags=["operations"], route_class=TypedRoute)
    Caller = Annotated[ApiKey, Depends(Permitted(auth, "operations"))]

    @router.get("/operations/status", response_model=OperationsStatus)
    async def read_status(caller: Caller) -> Response:
        """Read the deployment's status.

        It contains the progress of every projection and the problems that need an operator, as in
        `tally status --json`, read at `at`, at most a second ago. While Kafka or Valkey is unavailable, it is the
        last status read, and `problems` begins with the unavailable server; the response is still a 200.

        Progress and problems are those of the whole deployment; `dependencies` and rates are observed by the
        gateway that responds. Where several gateways share a port, each has one of its own for operators
        (`TALLY_OPERATIONS_PORT`), and the shared one answers 404.
        """
        return json_response(await status.read(caller.account), 200, NO_STORE)

    return router
