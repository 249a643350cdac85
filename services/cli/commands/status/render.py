"""Renders a status for a terminal and as plain lines."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.text import Text

from libs.monitoring.problems import Problem, is_noteworthy, notes_of, problems_of
from libs.monitoring.projection_names import Fold
from libs.monitoring.status import Beside, Status, moment
from libs.tally.time import timestamp
from services.cli.tables import Cells, fitted, lines_of, table_of

TEXTS: Final = ("fold", "gate", "last event", "scope", "state", "part")
SEALED: Final = ("contest", "sealed at", "sha256")
UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60))
DAY: Final = len("2026-01-01")


def rendered(status: Status, console: Console, *, everything: bool) -> RenderableType:
    """Render the status, the most important first: a terminal may be too low for all."""
    problems = problems_of(status)
    cells = _shortened(_fold_cells(status, everything=everything), moment(status.at) or "")
    shown: list[RenderableType] = [_verdict(status, problems), Text("")]
    shown += [fitted(console, table_of(cells, left=TEXTS))]
    if generations := _generation_cells(status):
        shown += [Text(""), fitted(console, table_of(generations, left=TEXTS))]
        shown += [Text(note, style="dim") for note in notes_of(status)]
    if status.sealed and everything:
        shown += [Text(""), fitted(console, table_of(_sealed_cells(status), left=SEALED))]
    elif status.sealed:
        shown += [Text(""), Text(f"Sealed contests: {len(status.sealed):,}")]
    return Group(*shown)


def plain_lines(status: Status, *, everything: bool) -> Iterator[str]:
    """Yield lines, each starting with its subject."""
    yield f"at: {moment(status.at)}"
    yield from lines_of(_fold_cells(status, everything=everything), "fold")
    yield from lines_of(_generation_cells(status), "generation")
    yield from lines_of(_part_cells(status), "part")
    if everything:
        yield from lines_of(_sealed_cells(status), "sealed")
    else:
        yield f"sealed: contests={len(status.sealed)}"
    for note in notes_of(status):
        yield f"note: {note}"
    for problem in problems_of(status):
        yield f"problem: {problem}"


def _verdict(status: Status, problems: Sequence[Problem]) -> RenderableType:
    parts = ", ".join(part.name for part in status.parts if part.alive)
    alive = f"; {parts} alive" if parts else ""
    if not problems:
        return Text.assemble(("All is well", "green"), alive)
    lines = [((f"{one.where}: ", "bold red"), one.detail, (f"; {one.way_out}", "dim")) for one in problems]
    return Group(*(Text.assemble(*words) for words in lines))


def _fold_cells(status: Status, *, everything: bool) -> list[Cells]:
    """Return each fold's totals, then its noteworthy partitions, or all."""
    found = []
    for fold in Fold:
        totals = status.totals(fold)
        gates = "" if "shut" not in totals else f"{totals['shut']} shut" if totals["shut"] else "open"
        found.append(_cells(fold, "all", totals, gates))
    for row in status.rows:
        if everything or is_noteworthy(row):
            gate = "" if row.ledger is None else "open" if row.ledger.open else "shut"
            found.append(_cells(row.fold, str(row.partition), row.as_json(), gate))
    return found


def _cells(fold: str, partition: str, of: dict[str, Any], gate: str) -> Cells:
    """Return the cells, the most important first: a narrow terminal omits the last ones."""
    oldest = of.get("oldest_pending_s")
    rate = of["folded_per_s"]
    return {
        "fold": fold,
        "partition": partition,
        "position": f"{of['position']:,}",
        "lag": f"{of['lag']:,}",
        "behind": duration(of["lag_s"]),
        "gate": gate,
        "pending": _number(of.get("pending")),
        "quar": _number(of["quarantined"]),
        "over": _number(of.get("overruled")),
        "last event": of["last_event"] or "-",
        **({} if rate is None else {"rec/s": f"{rate:,.0f}"}),
        "oldest": "" if oldest is None else duration(oldest),
        "fenced": _number(of.get("fenced")),
        "dup": _number(of.get("duplicates")),
        "dropped": _number(of["dropped"]),
        "end": f"{of['end']:,}",
        "generation": _number(of.get("generation")),
        "stalled since": of.get("stalled_since") or "",
    }


def _generation_cells(status: Status) -> list[Cells]:
    return [_beside(one) for one in status.beside]


def _beside(one: Beside) -> Cells:
    return {
        "fold": one.fold,
        "generation": str(one.generation),
        "scope": one.scope or "all",
        "state": one.state,
        "partitions": str(one.partitions),
        "position": f"{one.folded:,}",
        "behind live": f"{one.behind:,}",
        "done": f"{one.folded / max(1, one.end):.1%}",
        "left": "" if one.left_s is None else duration(one.left_s),
    }


def _part_cells(status: Status) -> list[Cells]:
    return [
        {"part": part.name, "pid": str(part.pid), "state": "alive" if part.alive else "dead"}
        for part in status.parts
    ]


def _sealed_cells(status: Status) -> list[Cells]:
    return [
        {
            "contest": one.contest,
            "closing": str(one.seal.seq),
            "sealed at": timestamp(one.seal.sealed_at) or "",
            "sha256": one.seal.sha256,
        }
        for one in status.sealed
    ]


def _shortened(rows: Sequence[Cells], now: str) -> list[Cells]:
    """Abbreviate times (today: the time, other days: the date) and the column `partition`."""
    return [
        {("part" if name == "partition" else name): _time(value, now) if name == "last event" else value
         for name, value in row.items()}
        for row in rows
    ]  # fmt: skip


def _time(text: str, now: str) -> str:
    return text[DAY + 1 : DAY + 9] if text[:DAY] == now[:DAY] else text[:DAY]


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def duration(seconds: float) -> str:
    """Return the duration in its largest unit and the next smaller one."""
    if seconds < 60:
        return f"{seconds:.1f}s" if seconds else "0s"
    for (unit, size), (smaller, rest) in zip(UNITS, [*UNITS[1:], ("s", 1)], strict=True):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}{int(seconds % size // rest):02d}{smaller}"
    raise AssertionError("a minute is the smallest unit")
