"""The deployment's status for operators, read once for concurrent requests: cache, response models and route."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from libs.monitoring.collector import StatusCollector, failing_tasks
from libs.monitoring.health_problems import HealthProblem, as_json
from libs.monitoring.lag import ProjectionName
from libs.monitoring.status import ProcessStatus, Status, moment
from libs.tally.errors import TallyError
from libs.telemetry.redaction import redacted
from libs.views.generations.generations import State
from libs.web.door.auth import ApiKey, Authenticator
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
        shown = self._shown(account)
        problems = [asdict(HealthProblem("away", name, reason, REMEDY)) for name, reason in away.items()]
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
        shown = as_json(replace(self._status, sealed=own))
        del shown["parts"]
        return shown


TIME: dict[str, Any] = {"format": "date-time"}
BEHIND = Field(description="Records that it lags behind the generation in use.")
KEPT_SINCE = Field(
    description="Time since which it is kept for a return to it; null if it is not.", json_schema_extra=TIME
)
PER_SECOND = Field(description="Records per second since the previous status; null in the first one.")


class OfVotes(BaseModel):
    """Values of the votes projection only."""

    model_config = ConfigDict(extra="forbid")

    pending: int | None = Field(
        None, description="Reserved votes whose events are neither processed nor abandoned."
    )
    oldest_pending_s: float | None = Field(None, description="Age of the oldest pending vote, in seconds.")
    fenced: int | None = Field(
        None, description="Records that a fence in the log excludes: not counted, their vote ids still unused."
    )
    duplicates: int | None = Field(None, description="Records whose vote id was processed before.")
    overruled: int | None = Field(
        None, description="Accepted votes that the projection did not count; expected to be 0."
    )


class OtherGeneration(BaseModel):
    """A generation (stored copy) of one partition's view, other than the one in use."""

    model_config = ConfigDict(extra="forbid")

    number: int = Field(description="Its number, as in commands.")
    state: State = Field(description="Its purpose and progress.")
    position: int = Field(description="The offset after the last record in it.")
    behind: int = BEHIND
    processed_per_s: float | None = PER_SECOND
    kept_since: str | None = KEPT_SINCE


class OpenPurchase(BaseModel):
    """A purchase whose votes are still to be cast or removed."""

    model_config = ConfigDict(extra="forbid")

    offset: int = Field(description="Offset of the record that opened it.")
    for_s: float = Field(description="Age of that record, in seconds.")
    unreadable: str = Field(description="The reason if it cannot be read, or empty.")


class PartitionStatus(OfVotes):
    """The progress of one partition of a projection."""

    partition: int = Field(description="Its number.")
    generation: int = Field(description="The generation in use.")
    position: int = Field(description="The offset after the last processed record.")
    end: int = Field(description="The offset after the last record of the log.")
    lag: int = Field(description="Records in the log that are not processed yet.")
    lag_s: float = Field(description="Age of the first of them, in seconds.")
    last_event: str | None = Field(
        description="Time that the last processed record was appended at.", json_schema_extra=TIME
    )
    stalled_since: str | None = Field(
        description="Time of the last progress, if records have been waiting for over 10 s without any.",
        json_schema_extra=TIME,
    )
    quarantined: int = Field(description="Records that could not be processed and were not dropped.")
    dropped: int = Field(description="Records that operators dropped: they will never be processed.")
    schema_: int = Field(alias="schema", description="Schema version of the stored view.")
    code_schema: int = Field(description="Schema version that the code reads.")
    generations: list[OtherGeneration] = Field(description="Generations other than the one in use.")
    processed_per_s: float | None = PER_SECOND
    oldest_open: OpenPurchase | None = Field(None, description="Only of purchases: the oldest unfinished one.")
    open: bool | None = Field(None, description="True if the partition accepts votes.")
    incarnation: int | None = Field(
        None, description="Epoch of the votes accepted now; a fence in the log ends it and starts the next."
    )
    valkey_clock_off_s: float | None = Field(
        None, description="Seconds that Valkey's clock is ahead of this server's; negative: behind."
    )
    clock_ahead_s: float | None = Field(
        None, description="Seconds that the timestamps of accepted votes are ahead of Valkey's clock."
    )


class ProjectionTotals(OfVotes):
    """Sums over the partitions of a projection; the worst of their times."""

    position: int = Field(description="Processed records.")
    end: int = Field(description="Records of the log.")
    lag: int = Field(description="Records that are not processed yet.")
    lag_s: float = Field(description="Age of the oldest of them, in seconds.")
    last_event: str | None = Field(
        description="Time that the last processed record was appended at.", json_schema_extra=TIME
    )
    stalled: int = Field(description="Partitions without progress.")
    shut: int | None = Field(None, description="Partitions that accept no votes.")
    quarantined: int = Field(description="Records that could not be processed and were not dropped.")
    dropped: int = Field(description="Records that operators dropped: they will never be processed.")
    processed_per_s: float | None = PER_SECOND


class GenerationStatus(BaseModel):
    """A generation (stored copy) other than the ones in use, summed over its partitions."""

    model_config = ConfigDict(extra="forbid")

    projection: ProjectionName = Field(description="The projection.")
    generation: int = Field(description="Its number.")
    state: State = Field(description="State of the partition with the least progress.")
    partitions: int = Field(description="Number of partitions that have it.")
    processed: int = Field(description="Records in it.")
    end: int = Field(description="Records of these partitions' logs.")
    behind: int = BEHIND
    processed_per_s: float | None = PER_SECOND
    left_s: float | None = Field(
        description="Estimated seconds until it is complete; null if it is not being built or makes no progress."
    )
    kept_since: str | None = KEPT_SINCE


class SealedContest(BaseModel):
    """A sealed contest of the key's account."""

    model_config = ConfigDict(extra="forbid")

    contest: str = Field(description="Key of the contest.")
    title: str = Field(description="Its title.")
    closing: int = Field(description="Number of the sealed closing.")
    sealed_at: str = Field(description="Time of sealing.", json_schema_extra=TIME)
    sha256: str = Field(description="SHA-256 of its certificate.")


class StandingProblem(BaseModel):
    """A problem that needs an operator."""

    model_config = ConfigDict(extra="forbid")

    kind: str = Field(
        description="The kind of problem.", examples=["away", "stalled", "gate", "quarantine", "overruled"]
    )
    where: str = Field(description="The unavailable server, or a projection and its partitions.")
    detail: str = Field(description="The problem, explained to people.")
    remedy: str = Field(description="The remedy, with commands in backticks.")


class OperationsStatus(BaseModel):
    """The status of the deployment."""

    model_config = ConfigDict(extra="forbid")

    now: str = Field(description="Time of the response.", json_schema_extra=TIME)
    at: str | None = Field(
        description="Time that the status was read at; null before the first.", json_schema_extra=TIME
    )
    version: str = Field(description="Version of the responding code.")
    command_options: str = Field(description="Options with which commands reach this deployment; may be empty.")
    dependencies: dict[str, str] = Field(
        description="Of the gateway that responds, as in `/readyz`: `ready`, or the reason why not."
    )
    problems: list[StandingProblem] = Field(description="Problems that need an operator.")
    notes: list[str] = Field(description="Facts that cost resources but are no problems.")
    projections: dict[ProjectionName, list[PartitionStatus]] = Field(description="Projections by partition.")
    totals: dict[ProjectionName, ProjectionTotals] = Field(description="Projections over all partitions.")
    generations: list[GenerationStatus] = Field(description="Generations other than the ones in use.")
    sealed: list[SealedContest] = Field(description="Contests of the key's account that are sealed.")


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
