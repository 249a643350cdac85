"""Status of a deployment at one time, as it is collected and as the API documents it.

Times are milliseconds since 1970 UTC, in JSON RFC 3339."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, PlainSerializer, computed_field
from pydantic.dataclasses import dataclass as documented

from libs.certificates.service import Sealed
from libs.tally.time_conversion import timestamp
from libs.views.generations.generations import ProjectionName, State

SUMMED: Final = (
    "position", "end", "lag", "quarantined", "dropped", "processed_per_s",
    "pending", "fenced", "duplicates", "overruled",
)  # fmt: skip
FURTHEST_LAST: Final = (State.LOST, State.BROKEN, State.OTHER_LAYOUT, State.BUILDING, State.FOLLOWING, State.KEPT)
DOCUMENTED: Final = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True, defer_build=True)


def moment(milliseconds: int | None) -> str | None:
    """Format a time as RFC 3339."""
    return None if milliseconds is None else timestamp(milliseconds * 1000)


Moment = Annotated[int, PlainSerializer(moment, return_type=str), Field(json_schema_extra={"format": "date-time"})]
PerSecond = Annotated[
    float | None, Field(description="Records per second since the previous status; null in the first one.")
]
Behind = Annotated[int, Field(description="Records that it lags behind the generation in use; negative if ahead.")]
KeptSince = Annotated[
    Moment | None, Field(description="Time since which it is kept for a return to it; null if it is not.")
]
LagSeconds = Annotated[float, Field(description="Age of the first record that is not processed yet, in seconds.")]
LastEvent = Annotated[Moment | None, Field(description="Time that the last processed record was appended at.")]
Quarantined = Annotated[int, Field(description="Records that could not be processed and were not dropped.")]
Dropped = Annotated[int, Field(description="Records that operators dropped: they will never be processed.")]


@documented(frozen=True, slots=True, kw_only=True, config=DOCUMENTED)
class OtherGeneration:
    """A generation (stored copy) of one partition's view, other than the one in use."""

    number: int = Field(description="Its number, as in commands.")
    state: State = Field(description="Its purpose and progress.")
    position: int = Field(description="The offset after the last record in it.")
    behind: Behind
    processed_per_s: PerSecond = None
    kept_since: KeptSince = None
    lost: int = Field(default=0, description="Records in it that the log lost: the view began again without them.")


@documented(frozen=True, slots=True, config=DOCUMENTED)
class OpenPurchase:
    """A purchase whose votes are still to be cast or removed."""

    offset: int = Field(description="Offset of the record that opened it.")
    for_s: float = Field(description="Age of that record, in seconds.")
    unreadable: str = Field(description="The reason if it cannot be read, or empty.")


@documented(frozen=True, slots=True, kw_only=True, config=DOCUMENTED)
class OfVotes:
    """Values of the votes projection only."""

    pending: int | None = Field(
        default=None, description="Reserved votes whose events are neither processed nor abandoned."
    )
    oldest_pending_s: float | None = Field(default=None, description="Age of the oldest pending vote, in seconds.")
    fenced: int | None = Field(
        default=None,
        description="Records that a fence in the log excludes: not counted, their vote ids still unused.",
    )
    duplicates: int | None = Field(default=None, description="Records whose vote id was processed before.")
    overruled: int | None = Field(
        default=None, description="Accepted votes that the projection did not count; expected to be 0."
    )


@documented(frozen=True, slots=True, kw_only=True, config=DOCUMENTED)
class PartitionStatus(OfVotes):
    """The progress of one partition of a projection."""

    projection: ProjectionName = Field(exclude=True)
    partition: int = Field(description="Its number.")
    generation: int = Field(description="The generation in use.")
    position: int = Field(description="The offset after the last processed record.")
    end: int = Field(description="The offset after the last record of the log.")
    lag_s: LagSeconds
    last_event: LastEvent
    stalled_since: Moment | None = Field(
        description="Time of the last progress, if records have been waiting for over 10 s without any."
    )
    quarantined: Quarantined
    dropped: Dropped
    schema: int = Field(description="Schema version of the stored view.")
    code_schema: int = Field(description="Schema version that the code reads.")
    generations: Sequence[OtherGeneration] = Field(description="Generations other than the one in use.")
    processed_per_s: PerSecond = None
    oldest_open: OpenPurchase | None = Field(
        default=None, description="Only of purchases: the oldest unfinished one."
    )
    open: bool | None = Field(default=None, description="True if the partition accepts votes.")
    incarnation: int | None = Field(
        default=None,
        description="Epoch of the votes accepted now; a fence in the log ends it and starts the next.",
    )
    valkey_clock_off_s: float | None = Field(
        default=None, description="Seconds that Valkey's clock is ahead of this server's; negative: behind."
    )
    clock_ahead_s: float | None = Field(
        default=None, description="Seconds that the timestamps of accepted votes are ahead of Valkey's clock."
    )

    @computed_field(description="Records in the log that are not processed yet.")  # type: ignore[prop-decorator]
    @property
    def lag(self) -> int:
        return self.end - self.position


@documented(frozen=True, slots=True, kw_only=True, config=DOCUMENTED)
class ProjectionTotals(OfVotes):
    """Sums over the partitions of a projection; the worst of their times."""

    position: int = Field(description="Processed records.")
    end: int = Field(description="Records of the log.")
    lag: int = Field(description="Records that are not processed yet.")
    lag_s: LagSeconds
    last_event: LastEvent
    stalled: int = Field(description="Partitions without progress.")
    shut: int | None = Field(default=None, description="Partitions that accept no votes.")
    quarantined: Quarantined
    dropped: Dropped
    processed_per_s: PerSecond


@documented(frozen=True, slots=True, kw_only=True, config=DOCUMENTED)
class GenerationStatus:
    """A generation (stored copy) other than the ones in use, summed over its partitions."""

    projection: ProjectionName = Field(description="The projection.")
    generation: int = Field(description="Its number.")
    state: State = Field(description="State of the partition with the least progress.")
    partitions: int = Field(description="Number of partitions that have it.")
    processed: int = Field(description="Records in it.")
    end: int = Field(description="Records of these partitions' logs.")
    behind: Behind
    processed_per_s: PerSecond
    kept_since: KeptSince = None

    @computed_field(  # type: ignore[prop-decorator]
        description="Estimated seconds until it is complete; null if it is not being built or makes no progress."
    )
    @property
    def left_s(self) -> float | None:
        if self.state is not State.BUILDING or not self.processed_per_s:
            return None
        return max(0, self.end - self.processed) / self.processed_per_s


@documented(frozen=True, slots=True, config=DOCUMENTED)
class SealedContest:
    """A sealed contest of the key's account."""

    contest: str = Field(description="Key of the contest.")
    title: str = Field(description="Its title.")
    closing: int = Field(description="Number of the sealed closing.")
    sealed_at: str = Field(description="Time of sealing.", json_schema_extra={"format": "date-time"})
    sha256: str = Field(description="SHA-256 of its certificate.")


class Answer(StrEnum):
    """The answer of a process to the question whether it can serve."""

    READY = "ready"
    UNREADY = "unready"
    REFUSED = "refused"
    """Nothing accepts connections at its address: it is starting, or could not open its port."""
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class ProcessEnds:
    """How often a process has ended since the start of the stack; when and why it did last."""

    times: int = 0
    at: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """A process of the local stack; `waits_for` names what one that is not ready lacks, and `failing` its stopped
    or failed tasks.

    `stall_s` is the longest turn of its event loop in the last minute, `stalled_in` its request's route or "none".
    `restarts_at` is set while it waits to be started again because it ended within seconds of its start.
    """

    name: str
    pid: int
    alive: bool
    failing: Sequence[str] = ()
    answer: Answer = Answer.READY
    waits_for: Sequence[str] = ()
    ends: ProcessEnds = ProcessEnds()
    restarts_at: int | None = None
    stall_s: float = 0.0
    stalled_in: str = "none"


@dataclass(frozen=True, slots=True)
class Away:
    """A server that does not answer, or partitions that cannot be read, and why.

    `follows`: another one that is away explains it.
    """

    where: str
    reason: str
    follows: bool = False


@dataclass(frozen=True, slots=True)
class Status:
    """Status at `at`: all partitions of all projections, the local stack's processes, and sealed contests.

    `away` names the servers that do not answer, and the partitions that are missing therefore.
    """

    at: int
    rows: Sequence[PartitionStatus]
    parts: Sequence[ProcessStatus]
    sealed: Sequence[Sealed]
    away: Sequence[Away] = ()

    def of(self, projection: ProjectionName) -> list[PartitionStatus]:
        """Return the projection's partitions in order."""
        return [row for row in self.rows if row.projection is projection]

    @property
    def lag(self) -> int:
        return sum(row.lag for row in self.rows)

    @property
    def beside(self) -> list[GenerationStatus]:
        """Generations other than the live ones, by projection and number."""
        found = []
        for projection in ProjectionName:
            each = [(one, row) for row in self.of(projection) for one in row.generations]
            each.sort(key=lambda pair: pair[0].number)
            for number, pairs in groupby(each, key=lambda pair: pair[0].number):
                found.append(_summed(projection, number, list(pairs)))
        return found

    def totals(self, projection: ProjectionName) -> ProjectionTotals:
        """Return sums over a projection's partitions; for times, the worst."""
        rows = self.of(projection)

        def total(name: str) -> Any:
            values = [value for row in rows if (value := getattr(row, name)) is not None]
            return sum(values) if values else None

        gates = [row.open for row in rows if row.open is not None]
        return ProjectionTotals(
            **{name: total(name) for name in SUMMED},
            lag_s=max(row.lag_s for row in rows),
            last_event=max((row.last_event for row in rows if row.last_event is not None), default=None),
            stalled=sum(row.stalled_since is not None for row in rows),
            shut=sum(not is_open for is_open in gates) if gates else None,
            oldest_pending_s=max(row.oldest_pending_s or 0 for row in rows) or None,
        )


def _summed(
    projection: ProjectionName, number: int, each: Sequence[tuple[OtherGeneration, PartitionStatus]]
) -> GenerationStatus:
    ones, rows = [one for one, _ in each], [row for _, row in each]
    rates = [one.processed_per_s for one in ones if one.processed_per_s is not None]
    return GenerationStatus(
        projection=projection,
        generation=number,
        state=min((one.state for one in ones), key=FURTHEST_LAST.index),
        partitions=len(ones),
        processed=sum(one.position for one in ones),
        end=sum(row.end for row in rows),
        behind=sum(one.behind for one in ones),
        processed_per_s=sum(rates) if rates else None,
        kept_since=min((one.kept_since for one in ones if one.kept_since is not None), default=None),
    )
