"""What is known of a deployment at one moment. Times are milliseconds since 1970 UTC."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Final

from libs.certificates.index import Sealed
from libs.monitoring.projection_names import Fold
from libs.tally.time import timestamp
from libs.views.generations import State

SUMMED: Final = ("lag", "quarantined", "dropped")
SUMMED_OF_VOTES: Final = ("pending", "fenced", "duplicates", "overruled")
FURTHEST_LAST: Final = (State.BROKEN, State.BUILDING, State.SIDE, State.FOLLOWING, State.KEPT)


@dataclass(frozen=True, slots=True)
class OtherGeneration:
    """One beside the live one; `behind` is how many records the live one is ahead, less than 0 where it is not.

    `folded_per_s` is None at a first look. `kept_since` is when it was swapped, `held` whether it is kept until
    somebody drops it.
    """

    number: int
    scope: str
    state: State
    position: int
    behind: int
    folded_per_s: float | None = None
    kept_since: int | None = None
    held: bool = False


@dataclass(frozen=True, slots=True)
class Ledger:
    """What only a votes partition has.

    `valkey_clock_off_s` is how far Valkey's clock is ahead of this process's (less than 0: behind), and
    `clock_ahead_s` how far the partition's, which stamps votes, is ahead of Valkey's.
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
    """One whose votes are still to be cast or taken back, since the record at `offset`, for `for_s`.

    `unreadable` is why it cannot be read, "" where it can.
    """

    offset: int
    for_s: float
    unreadable: str


@dataclass(frozen=True, slots=True)
class Row:
    """One partition of a fold.

    `lag` is what the log has and the live view has not: in records, and `lag_s` as the age of the first of them.
    `last_event` is when the last folded record was appended. `stalled_since` is not None where the view has not
    moved for long although the log has more: since the first of that was appended, or the view last seen to move.
    `quarantined` counts what is not `dropped`. `folded_per_s` is None at a first look. `schema` is the layout that
    is stored, `code_schema` the one that this code reads. `oldest_open` is of purchases alone.
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
    schema: int
    code_schema: int
    generations: Sequence[OtherGeneration]
    ledger: Ledger | None = None
    folded_per_s: float | None = None
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
        del shown["fold"]
        return shown | (shown.pop("ledger") or {})


@dataclass(frozen=True, slots=True)
class Beside:
    """A generation beside the live ones, in all partitions that have it; `state` is that of the last of them.

    `folded` of the `end` records of their logs are in it, `left_s` is how long the rest takes at this pace: None
    where it is not being built, or does not move. `kept_since` and `held` are as of an `OtherGeneration`: the time
    of the first of them.
    """

    fold: Fold
    generation: int
    scope: str
    state: State
    partitions: int
    folded: int
    end: int
    behind: int
    folded_per_s: float | None
    kept_since: int | None = None
    held: bool = False

    @property
    def left_s(self) -> float | None:
        if self.state is not State.BUILDING or not self.folded_per_s:
            return None
        return max(0, self.end - self.folded) / self.folded_per_s


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A process of the local stack; `failing` names the tasks in it that stopped or failed."""

    name: str
    pid: int
    alive: bool
    failing: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Status:
    """All partitions of all folds, the parts of the local stack and the sealed contests, as of `at`."""

    at: int
    rows: Sequence[Row]
    parts: Sequence[PartitionStatus]
    sealed: Sequence[Sealed]

    def of(self, fold: Fold) -> list[Row]:
        """Its partitions in order."""
        return [row for row in self.rows if row.fold is fold]

    @property
    def lag(self) -> int:
        return sum(row.lag for row in self.rows)

    @property
    def beside(self) -> list[Beside]:
        """By fold and number."""
        found = []
        for fold in Fold:
            each = [(one, row) for row in self.of(fold) for one in row.generations]
            each.sort(key=lambda pair: (pair[0].number, pair[0].scope))
            for (number, scope), pairs in groupby(each, key=lambda pair: (pair[0].number, pair[0].scope)):
                found.append(_together(fold, number, scope, list(pairs)))
        return found

    def totals(self, fold: Fold) -> dict[str, Any]:
        """Sums over the partitions of a fold; of times, the worst."""
        rows = self.of(fold)
        found: dict[str, Any] = {name: sum(getattr(row, name) for row in rows) for name in SUMMED}
        found |= {"position": sum(row.position for row in rows), "end": sum(row.end for row in rows)}
        found["lag_s"] = max(row.lag_s for row in rows)
        found["last_event"] = moment(max((row.last_event or 0 for row in rows), default=0) or None)
        found["stalled"] = sum(row.stalled_since is not None for row in rows)
        found["folded_per_s"] = _rate(rows)
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
            "generations": [
                asdict(one) | {"left_s": one.left_s, "kept_since": moment(one.kept_since)} for one in self.beside
            ],
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


def _together(fold: Fold, number: int, scope: str, each: Sequence[tuple[OtherGeneration, Row]]) -> Beside:
    ones, rows = [one for one, _ in each], [row for _, row in each]
    return Beside(
        fold=fold,
        generation=number,
        scope=scope,
        state=min((one.state for one in ones), key=FURTHEST_LAST.index),
        partitions=len(ones),
        folded=sum(one.position for one in ones),
        end=sum(row.end for row in rows),
        behind=sum(one.behind for one in ones),
        folded_per_s=_rate(ones),
        kept_since=min((one.kept_since for one in ones if one.kept_since is not None), default=None),
        held=any(one.held for one in ones),
    )


def _rate(each: Sequence[Row] | Sequence[OtherGeneration]) -> float | None:
    rates = [one.folded_per_s for one in each if one.folded_per_s is not None]
    return sum(rates) if rates else None


def moment(milliseconds: int | None) -> str | None:
    """RFC 3339."""
    return None if milliseconds is None else timestamp(milliseconds * 1000)
