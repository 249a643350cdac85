"""Status of a deployment at one time. Times are milliseconds since 1970 UTC."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Final

from libs.certificates.service import Sealed
from libs.monitoring.lag import ProjectionName
from libs.tally.time_conversion import timestamp
from libs.views.generations.generations import State

SUMMED: Final = ("lag", "quarantined", "dropped")
SUMMED_OF_VOTES: Final = ("pending", "fenced", "duplicates", "overruled")
FURTHEST_LAST: Final = (State.BROKEN, State.BUILDING, State.FOLLOWING, State.KEPT)


@dataclass(frozen=True, slots=True)
class OtherGeneration:
    """A generation other than the live one; `behind` is its lag in records (negative if ahead of the live one).

    `processed_per_s` is None at the first observation. `kept_since` is the time of the swap.
    """

    number: int
    state: State
    position: int
    behind: int
    processed_per_s: float | None = None
    kept_since: int | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """State of a votes partition only.

    `valkey_clock_off_s` is the offset of Valkey's clock from this process's (positive: ahead), `clock_ahead_s`
    that of the partition's clock, which stamps votes, from Valkey's.
    """

    open: bool
    incarnation: int
    pending: int
    oldest_pending_s: float | None
    fenced: int
    duplicates: int
    overruled: int
    valkey_clock_off_s: float
    clock_ahead_s: float


@dataclass(frozen=True, slots=True)
class OpenPurchase:
    """A purchase whose votes are not yet cast or taken back, since the record at `offset`, for `for_s` seconds.

    `unreadable` is the reason why it cannot be read, "" if it can.
    """

    offset: int
    for_s: float
    unreadable: str


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition of a projection.

    `lag` is the number of records that the live view has not processed, `lag_s` the age of the first of them.
    `last_event` is the append time of the last processed record. `stalled_since` is set if the view has not
    advanced for long although the log has more: the time that the first of those was appended, or of its last
    progress.
    `quarantined` excludes `dropped` records. `processed_per_s` is None at the first observation. `schema` is the
    stored layout, `code_schema` the one of this code. `oldest_open` is set for purchases only.
    """

    projection: ProjectionName
    partition: int
    generation: int
    position: int
    end: int
    lag_s: float
    last_event: int | None
    stalled_since: int | None
    quarantined: int
    dropped: int
    schema: int
    code_schema: int
    generations: Sequence[OtherGeneration]
    ledger: Ledger | None = None
    processed_per_s: float | None = None
    oldest_open: OpenPurchase | None = None

    @property
    def lag(self) -> int:
        return self.end - self.position

    def as_json(self) -> dict[str, Any]:
        shown = asdict(self) | {
            "generations": [asdict(one) | {"kept_since": moment(one.kept_since)} for one in self.generations],
            "lag": self.lag,
            "last_event": moment(self.last_event),
            "stalled_since": moment(self.stalled_since),
        }
        del shown["projection"]
        return shown | (shown.pop("ledger") or {})


@dataclass(frozen=True, slots=True)
class GenerationStatus:
    """A generation other than the live one over all its partitions; `state` is that of the least advanced one.

    It has `processed` of the `end` records of their logs. `left_s` is the remaining time at the current rate: None
    if it is not being built, or does not advance. `kept_since` is the earliest.
    """

    projection: ProjectionName
    generation: int
    state: State
    partitions: int
    processed: int
    end: int
    behind: int
    processed_per_s: float | None
    kept_since: int | None = None

    @property
    def left_s(self) -> float | None:
        if self.state is not State.BUILDING or not self.processed_per_s:
            return None
        return max(0, self.end - self.processed) / self.processed_per_s


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """A process of the local stack; `failing` names its stopped or failed tasks.

    `restarts_at` is set while it waits to be started again because it ended within seconds of its start.
    """

    name: str
    pid: int
    alive: bool
    failing: Sequence[str] = ()
    restarts_at: int | None = None


@dataclass(frozen=True, slots=True)
class Away:
    """A server that does not answer, or partitions that cannot be read, and why."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class Status:
    """Status at `at`: all partitions of all projections, the local stack's processes, and sealed contests.

    `away` names the servers that do not answer, and the partitions that are missing therefore.
    """

    at: int
    rows: Sequence[PartitionRow]
    parts: Sequence[ProcessStatus]
    sealed: Sequence[Sealed]
    away: Sequence[Away] = ()

    def of(self, projection: ProjectionName) -> list[PartitionRow]:
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

    def totals(self, projection: ProjectionName) -> dict[str, Any]:
        """Return sums over a projection's partitions; for times, the worst."""
        rows = self.of(projection)
        found: dict[str, Any] = {name: sum(getattr(row, name) for row in rows) for name in SUMMED}
        found |= {"position": sum(row.position for row in rows), "end": sum(row.end for row in rows)}
        found["lag_s"] = max(row.lag_s for row in rows)
        found["last_event"] = moment(max((row.last_event or 0 for row in rows), default=0) or None)
        found["stalled"] = sum(row.stalled_since is not None for row in rows)
        found["processed_per_s"] = _rate(rows)
        ledgers = [row.ledger for row in rows if row.ledger is not None]
        if ledgers:
            found |= {name: sum(getattr(one, name) for one in ledgers) for name in SUMMED_OF_VOTES}
            found["shut"] = sum(not one.open for one in ledgers)
            found["oldest_pending_s"] = max(one.oldest_pending_s or 0 for one in ledgers) or None
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "at": moment(self.at),
            "projections": {
                projection.value: [row.as_json() for row in self.of(projection)] for projection in ProjectionName
            },
            "totals": {
                projection.value: self.totals(projection) for projection in ProjectionName if self.of(projection)
            },
            "generations": [
                asdict(one) | {"left_s": one.left_s, "kept_since": moment(one.kept_since)} for one in self.beside
            ],
            "parts": [asdict(part) | {"restarts_at": moment(part.restarts_at)} for part in self.parts],
            "sealed": [
                {
                    "contest": one.contest,
                    "title": one.title,
                    "closing": one.seal.seq,
                    "sealed_at": timestamp(one.seal.sealed_at),
                    "sha256": one.seal.sha256,
                }
                for one in self.sealed
            ],
        }


def _summed(
    projection: ProjectionName, number: int, each: Sequence[tuple[OtherGeneration, PartitionRow]]
) -> GenerationStatus:
    ones, rows = [one for one, _ in each], [row for _, row in each]
    return GenerationStatus(
        projection=projection,
        generation=number,
        state=min((one.state for one in ones), key=FURTHEST_LAST.index),
        partitions=len(ones),
        processed=sum(one.position for one in ones),
        end=sum(row.end for row in rows),
        behind=sum(one.behind for one in ones),
        processed_per_s=_rate(ones),
        kept_since=min((one.kept_since for one in ones if one.kept_since is not None), default=None),
    )


def _rate(each: Sequence[PartitionRow] | Sequence[OtherGeneration]) -> float | None:
    rates = [one.processed_per_s for one in each if one.processed_per_s is not None]
    return sum(rates) if rates else None


def moment(milliseconds: int | None) -> str | None:
    """Format a time as RFC 3339."""
    return None if milliseconds is None else timestamp(milliseconds * 1000)
