"""Problems of a status that need an operator."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from pydantic import Field, TypeAdapter
from pydantic.dataclasses import dataclass as documented

from libs.monitoring.status import (
    DOCUMENTED,
    Answer,
    GenerationStatus,
    Moment,
    PartitionStatus,
    ProcessStatus,
    ProjectionTotals,
    SealedContest,
    Status,
    moment,
)
from libs.tally.time_conversion import timestamp
from libs.views.generations.generations import ProjectionName, State

BEHIND_S: Final = 1.0
"""Maximum lag in seconds of a healthy view."""
CLOCK_OFF_S: Final = 2.0
"""Maximum difference in seconds of clocks synchronised by NTP."""
OPEN_PURCHASE_S: Final = 60.0
"""Maximum seconds to process a purchase or its refund."""
OLDEST_PENDING_S: Final = 10.0
"""Maximum seconds to resolve a vote whose append is in doubt."""
STALL_S: Final = 1.0
"""Maximum CPU time in seconds of one turn of a process's event loop."""
WAITING: Final = ("stalled", "gate", "pending", "purchase")
"""Kinds of problems that a server or process that is away explains."""


@documented(frozen=True, slots=True, config=DOCUMENTED)
class HealthProblem:
    """A problem that needs an operator."""

    kind: str = Field(
        description="The kind of problem.", examples=["away", "stalled", "gate", "quarantine", "overruled"]
    )
    where: str = Field(description="The unavailable server, or a projection and its partitions.")
    detail: str = Field(description="The problem, explained to people.")
    remedy: str = Field(description="The remedy, with commands in backticks.")
    follows: bool = Field(default=False, description="True if a problem before it probably explains it.")

    def __str__(self) -> str:
        return f"{self.where}: {self.detail}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class _Check:
    """A check of one partition; `detail` describes the problem for all failing partitions of a projection."""

    kind: str
    holds: Callable[[PartitionStatus], bool]
    detail: Callable[[Sequence[PartitionStatus]], str]
    remedy: str


def problems_of(status: Status) -> list[HealthProblem]:
    """Return the problems, those that others explain last: processes that ended, absent servers, other faults of
    processes, projections."""
    remedy = "`tally doctor` checks the servers"
    ended = [part.name for part in status.parts if not part.alive]
    found = [
        *_ended(status),
        *(
            HealthProblem("away", one.where, one.reason, remedy, one.follows or _is_of(one.where, ended))
            for one in status.away
        ),
        *_parts(status, follows=bool(status.away or ended)),
        *_projections(status, follows=bool(status.away or ended)),
    ]
    return sorted(found, key=lambda problem: problem.follows)


def _is_of(where: str, ended: Sequence[str]) -> bool:
    """Return whether a server is a process that has ended: "Kafka 10.0.0.5:9092" is of "kafka" or "kafka-1"."""
    return any(where.lower().startswith(name.partition("-")[0]) for name in ended)


@documented(frozen=True, slots=True, kw_only=True, config=DOCUMENTED)
class StatusReport:
    """A status with its problems, as commands and the API show it."""

    at: Moment | None = Field(description="Time that the status was read at; null before the first.")
    projections: dict[ProjectionName, list[PartitionStatus]] = Field(description="Projections by partition.")
    totals: dict[ProjectionName, ProjectionTotals] = Field(description="Projections over all partitions.")
    generations: list[GenerationStatus] = Field(description="Generations other than the ones in use.")
    sealed: list[SealedContest] = Field(description="Contests of the key's account that are sealed.")
    problems: list[HealthProblem] = Field(description="Problems that need an operator.")
    notes: list[str] = Field(description="Facts that cost resources but are no problems.")


def members_of(status: Status) -> dict[str, Any]:
    """Return the members of the status's report."""
    sealed = [
        SealedContest(one.contest, one.title, one.seal.seq, timestamp(one.seal.sealed_at) or "", one.seal.sha256)
        for one in status.sealed
    ]
    return {
        "at": status.at,
        "projections": {projection: status.of(projection) for projection in ProjectionName},
        "totals": {name: status.totals(name) for name in ProjectionName if status.of(name)},
        "generations": status.beside,
        "sealed": sealed,
        "problems": problems_of(status),
        "notes": notes_of(status),
    }


REPORT: Final = TypeAdapter(StatusReport)


def as_json(status: Status) -> dict[str, Any]:
    """Return the report, and the processes of the local stack."""
    parts = [
        asdict(part)
        | {"restarts_at": moment(part.restarts_at), "ends": asdict(part.ends) | {"at": moment(part.ends.at)}}
        for part in status.parts
    ]
    shown: dict[str, Any] = REPORT.dump_python(StatusReport(**members_of(status)), mode="json")
    return shown | {"parts": parts}


def notes_of(status: Status) -> list[str]:
    """Return notes on generations that cost memory and time, and on processes that were restarted: no problems."""
    restarted = [
        f"{part.name}: restarts so far: {part.ends.times}; it last ended{_last_end(part)}"
        for part in status.parts
        if part.alive and part.ends.times
    ]
    return [*(note for one in status.beside if (note := _note(one))), *restarted]


def _note(one: GenerationStatus) -> str:
    drop = f"`tally replay drop --projection {one.projection} --generation {one.generation} --execute` drops it"
    if one.state is State.OTHER_LAYOUT:
        return (
            f"{one.projection}: generation {one.generation} has another version's layout: it is built for an "
            f"upgrade, or was read before one; {drop} once that version is not needed"
        )
    if one.state is not State.KEPT:
        return ""
    return (
        f"{one.projection}: generation {one.generation}, read before, is kept for a day since "
        f"{moment(one.kept_since)}; each batch is processed twice; {drop}"
    )


def is_noteworthy(row: PartitionStatus) -> bool:
    """Return whether a row shows more than its projection's totals."""
    return row.lag_s > BEHIND_S or any(check.holds(row) for check in CHECKS)


def _ended(status: Status) -> Iterator[HealthProblem]:
    remedy = "`tally up` starts it again by itself; if it does not, read its log and restart"
    for part in status.parts:
        if part.alive:
            continue
        how = f"process {part.pid} has ended{_last_end(part)}"
        if part.restarts_at is None:
            yield HealthProblem("part", part.name, how, remedy)
        else:
            detail = f"{how}, within seconds of its start; it is started again at {moment(part.restarts_at)}"
            yield HealthProblem("part", part.name, detail, "read its log")


def _last_end(part: ProcessStatus) -> str:
    """Return the time and reason of its last end, if they are known."""
    return "" if part.ends.at is None else f" at {moment(part.ends.at)} ({part.ends.reason})"


def _parts(status: Status, *, follows: bool) -> Iterator[HealthProblem]:
    """Yield the faults of the processes that run; `follows`: servers or processes are away that they may need."""
    for part in status.parts:
        if not part.alive:
            continue
        if part.answer is Answer.SILENT:
            detail = f"process {part.pid} does not answer"
            yield HealthProblem("part", part.name, detail, "`tally up` restarts it if it stays so; read its log")
        elif part.answer is Answer.REFUSED:
            detail = f"process {part.pid} accepts no connections{_since(part)}: it is starting, or could not start"
            yield HealthProblem("part", part.name, detail, "read its log if it stays so")
        elif part.failing:
            names = ", ".join(part.failing)
            yield HealthProblem("part", part.name, f"stopped or failing in it: {names}", "see its log")
        elif part.answer is Answer.UNREADY:
            why = f"waits for {', '.join(part.waits_for)}" if part.waits_for else "it is stopping"
            detail = f"process {part.pid} is not ready: {why}"
            yield HealthProblem("part", part.name, detail, "its log names the reason", follows)
        elif part.stall_s > STALL_S:
            detail = f"kept all requests waiting for {part.stall_s:.1f} s"
            where = "" if part.stalled_in == "none" else f", by one to {part.stalled_in}"
            yield HealthProblem("loop", part.name, detail + where, "its log names the route and the time")


def _since(part: ProcessStatus) -> str:
    return f", after its end{_last_end(part)}" if part.ends.at is not None else ""


def _projections(status: Status, *, follows: bool) -> Iterator[HealthProblem]:
    for projection in ProjectionName:
        for check in CHECKS:
            rows = [row for row in status.of(projection) if check.holds(row)]
            if rows:
                which = (
                    "all"
                    if len(rows) == len(status.of(projection))
                    else ", ".join(str(row.partition) for row in rows)
                )
                where, explained = f"{projection} {which}", follows and check.kind in WAITING
                yield HealthProblem(check.kind, where, check.detail(rows), check.remedy, explained)


def _stalled(rows: Sequence[PartitionStatus]) -> str:
    since = moment(min(row.stalled_since or 0 for row in rows))
    behind = sum(row.lag for row in rows)
    return f"stalled since {since}, {behind:,} {'record' if behind == 1 else 'records'} behind"


def _pending_too_long(row: PartitionStatus) -> bool:
    return (row.oldest_pending_s or 0) > OLDEST_PENDING_S


def _oldest(rows: Sequence[PartitionStatus]) -> str:
    oldest = max(row.oldest_pending_s or 0 for row in rows)
    return f"a vote is pending for {oldest:.0f} s"


def _purchase_waits(row: PartitionStatus) -> bool:
    oldest = row.oldest_open
    return oldest is not None and (bool(oldest.unreadable) or oldest.for_s > OPEN_PURCHASE_S)


def _open_purchases(rows: Sequence[PartitionStatus]) -> str:
    oldest = max((row.oldest_open for row in rows if row.oldest_open is not None), key=lambda one: one.for_s)
    why = f", it cannot be read: {oldest.unreadable}" if oldest.unreadable else ""
    return f"a purchase at offset {oldest.offset} is neither cast nor refused for {oldest.for_s:,.0f} s{why}"


def _clock_is_off(row: PartitionStatus) -> bool:
    return max(abs(row.valkey_clock_off_s or 0), row.clock_ahead_s or 0) > CLOCK_OFF_S


def _clocks(rows: Sequence[PartitionStatus]) -> str:
    off = max((row.valkey_clock_off_s or 0 for row in rows), key=abs)
    ahead = max(row.clock_ahead_s or 0 for row in rows)
    texts = []
    if abs(off) > CLOCK_OFF_S:
        texts.append(f"Valkey's clock is {abs(off):,.0f} s {'ahead of' if off > 0 else 'behind'} this machine's")
    if ahead > CLOCK_OFF_S:
        texts.append(f"votes are stamped {ahead:,.0f} s ahead of Valkey's clock, which stepped back")
    return ", ".join(texts)


def _broken(row: PartitionStatus) -> list[int]:
    return [one.number for one in row.generations if one.state is State.BROKEN]


def _lost(row: PartitionStatus) -> int:
    return sum(one.lost for one in row.generations)


def _losses(rows: Sequence[PartitionStatus]) -> str:
    records = sum(map(_lost, rows))
    since = moment(min(one.kept_since or 0 for row in rows for one in row.generations if one.lost))
    return f"the log lost {records:,} acknowledged {'record' if records == 1 else 'records'}, noticed at {since}"


CHECKS: Final = (
    _Check(
        "log",
        lambda row: row.position > row.end,
        lambda _: "the view's position is past the log's end: the log was replaced or truncated",
        "a running projector builds the view from this log, once its replicas confirm that the records are lost; "
        "the runbook's part `log` says how the log is restored instead",
    ),
    _Check(
        "lost",
        lambda row: _lost(row) > 0,
        _losses,
        "the views were built again; `tally lost votes` lists the votes, `tally lost acknowledge` ends this line",
    ),
    _Check(
        "layout",
        lambda row: row.schema != row.code_schema,
        lambda rows: f"written in layout {rows[0].schema}, while this version reads {rows[0].code_schema}",
        "the version that wrote it serves; `tally replay run --outdated` of the version to keep rebuilds it",
    ),
    _Check(
        "stalled",
        lambda row: row.stalled_since is not None,
        _stalled,
        "check that a projector runs; `tally serve projector` starts another",
    ),
    _Check(
        "gate",
        lambda row: row.open is False,
        lambda _: "voting paused: no votes are accepted there",
        "a running projector resumes it within seconds; `tally serve projector` starts one",
    ),
    _Check(
        "pending",
        _pending_too_long,
        _oldest,
        "a running projector resolves it; `tally serve projector` starts one",
    ),
    _Check(
        "purchase",
        _purchase_waits,
        _open_purchases,
        "the projector's log names the reason, and it is tried again; other purchases continue",
    ),
    _Check(
        "clock",
        _clock_is_off,
        _clocks,
        "synchronise the clocks by NTP; a running projector corrects the times of votes once both agree",
    ),
    _Check(
        "overruled",
        lambda row: bool(row.overruled),
        lambda rows: f"accepted votes that do not count: {sum(row.overruled or 0 for row in rows):,}",
        "this must never happen: `tally verify` names the contests, `tally log CONTEST` the votes; report both",
    ),
    _Check(
        "quarantine",
        lambda row: row.quarantined > 0,
        lambda rows: f"records that could not be processed: {sum(row.quarantined for row in rows):,}",
        "`tally quarantine list` lists them",
    ),
    _Check(
        "generation",
        lambda row: bool(_broken(row)),
        lambda rows: f"generation {_broken(rows[0])[0]} is broken: it cannot process further records",
        "readers do not use it: `tally replay drop` deletes it, `tally replay run` builds another",
    ),
)
