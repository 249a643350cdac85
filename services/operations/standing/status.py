"""What `tally status` knows of a deployment at one moment. Times are milliseconds since 1970 UTC."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from libs.sealing.listing import Sealed
from libs.tally.errors import timestamp
from libs.views.generations import State
from services.operations.folds import Fold

SUMMED: Final = ("lag", "quarantined", "dropped")
SUMMED_OF_VOTES: Final = ("pending", "fenced", "duplicates", "overruled")


@dataclass(frozen=True, slots=True)
class OtherGeneration:
    """One beside the live one; `behind` is how many records the live one is ahead, less than 0 where it is not."""

    number: int
    scope: str
    state: State
    position: int
    behind: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """What only a votes partition has."""

    open: bool
    incarnation: int
    pending: int
    oldest_pending_s: float | None
    fenced: int
    duplicates: int
    overruled: int


@dataclass(frozen=True, slots=True)
class Row:
    """One partition of a fold.

    `lag` is what the log has and the live view has not: in records, and `lag_s` as the age of the first of them.
    `last_event` is when the last folded record was appended. `stalled_since` is not None where the view has not
    moved for long although the log has more: since the first of that was appended, or the view last seen to move.
    `quarantined` counts what is not `dropped`. `folded_per_s` is None at a first look.
    """

    fold: Fold
    partition: int
    generation: int
    position: int
    end: int
    lag_s: float
    last_event: int | None
    stalled_since: int | None
    quarantined: int
    dropped: int
    generations: Sequence[OtherGeneration]
    ledger: Ledger | None = None
    folded_per_s: float | None = None

    @property
    def lag(self) -> int:
        return self.end - self.position

    def as_json(self) -> dict[str, Any]:
        shown = asdict(self) | {
            "lag": self.lag,
            "last_event": moment(self.last_event),
            "stalled_since": moment(self.stalled_since),
        }
        del shown["fold"]
        return shown | (shown.pop("ledger") or {})


@dataclass(frozen=True, slots=True)
class Part:
    """A process of the local stack."""

    name: str
    pid: int
    alive: bool


@dataclass(frozen=True, slots=True)
class Status:
    """All partitions of all folds, the parts of the local stack and the sealed contests, as of `at`."""

    at: int
    rows: Sequence[Row]
    parts: Sequence[Part]
    sealed: Sequence[Sealed]

    def of(self, fold: Fold) -> list[Row]:
        """Its partitions in order."""
        return [row for row in self.rows if row.fold is fold]

    @property
    def lag(self) -> int:
        return sum(row.lag for row in self.rows)

    def totals(self, fold: Fold) -> dict[str, Any]:
        """Sums over the partitions of a fold; of times, the worst."""
        rows = self.of(fold)
        found: dict[str, Any] = {name: sum(getattr(row, name) for row in rows) for name in SUMMED}
        found |= {"position": sum(row.position for row in rows), "end": sum(row.end for row in rows)}
        found["lag_s"] = max(row.lag_s for row in rows)
        found["last_event"] = moment(max((row.last_event or 0 for row in rows), default=0) or None)
        found["stalled"] = sum(row.stalled_since is not None for row in rows)
        rates = [row.folded_per_s for row in rows if row.folded_per_s is not None]
        found["folded_per_s"] = sum(rates) if rates else None
        ledgers = [row.ledger for row in rows if row.ledger is not None]
        if ledgers:
            found |= {name: sum(getattr(one, name) for one in ledgers) for name in SUMMED_OF_VOTES}
            found["shut"] = sum(not one.open for one in ledgers)
            found["oldest_pending_s"] = max(one.oldest_pending_s or 0 for one in ledgers) or None
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "at": moment(self.at),
            "folds": {fold.value: [row.as_json() for row in self.of(fold)] for fold in Fold},
            "totals": {fold.value: self.totals(fold) for fold in Fold},
            "parts": [asdict(part) for part in self.parts],
            "sealed": [
                {
                    "contest": one.contest,
                    "closing": one.seal.seq,
                    "sealed_at": timestamp(one.seal.sealed_at),
                    "sha256": one.seal.sha256,
                }
                for one in self.sealed
            ],
        }


def moment(milliseconds: int | None) -> str | None:
    """RFC 3339."""
    return None if milliseconds is None else timestamp(milliseconds * 1000)
