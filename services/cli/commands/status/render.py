"""Renders a status."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.text import Text

from libs.monitoring.health_problems import Problem, is_noteworthy, notes_of, problems_of
from libs.monitoring.lag import ProjectionName
from libs.monitoring.status import GenerationStatus, Status, moment
from libs.tally.time_conversion import timestamp
from services.cli.commands.status.reader import Reading, Unreadable
from services.cli.render import Block, Rows

Cells = dict[str, object]

UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60))
DAY: Final = len("2026-01-01")


def status_text(reading: Reading | Unreadable) -> Iterator[Block]:
    """Yield the most important first: a terminal may be too low for all."""
    last = reading if isinstance(reading, Reading) else reading.last
    if isinstance(reading, Unreadable):
        yield Text(f"{reading.at}: nothing could be read: {reading.error}", style="bold red")
        yield Text("The last successful reading:\n" if last else "", style="dim")
    if last is not None:
        yield from _status(last.status, last.everything)
    if not isinstance(reading, Reading) or reading.repeated:
        yield ""


def _status(status: Status, everything: bool) -> Iterator[Block]:
    yield from _verdict(status, problems_of(status))
    yield ""
    yield Rows(_shortened(_projection_cells(status, everything=everything), moment(status.at) or ""), fit=True)
    if generations := _generation_cells(status):
        yield ""
        yield Rows(generations, fit=True)
        yield from (Text(note, style="dim") for note in notes_of(status))
    if status.sealed and everything:
        yield ""
        yield Rows(_sealed_cells(status), fit=True)
    elif status.sealed:
        yield ""
        yield f"Sealed contests: {len(status.sealed):,}"
    yield Text(f"As of {moment(status.at)}.", style="dim")


def _verdict(status: Status, problems: Sequence[Problem]) -> Iterator[Text]:
    parts = ", ".join(part.name for part in status.parts if part.alive)
    if not problems:
        yield Text.assemble(("All is well", "green"), f"; {parts} alive" if parts else "")
    for one in problems:
        yield Text.assemble((f"{one.where}: ", "bold red"), one.detail, (f"; {one.remedy}", "dim"))


def _projection_cells(status: Status, *, everything: bool) -> list[Cells]:
    """Return each projection's totals, then its noteworthy partitions, or all."""
    found = []
    for projection in ProjectionName:
        totals = status.totals(projection)
        gates = "" if "shut" not in totals else f"{totals['shut']} paused" if totals["shut"] else "open"
        found.append(_cells(projection, "all", totals, gates))
    for row in status.rows:
        if everything or is_noteworthy(row):
            gate = "" if row.ledger is None else "open" if row.ledger.open else "paused"
            found.append(_cells(row.projection, str(row.partition), row.as_json(), gate))
    return found


def _cells(projection: str, partition: str, of: dict[str, Any], gate: str) -> Cells:
    """Return the cells, the most important first: a narrow terminal omits the last ones."""
    oldest = of.get("oldest_pending_s")
    rate = of["processed_per_s"]
    return {
        "projection": projection,
        "partition": partition,
        "position": of["position"],
        "lag": of["lag"],
        "behind": duration(of["lag_s"]),
        "voting": gate,
        "pending": of.get("pending"),
        "quar": of["quarantined"],
        "over": of.get("overruled"),
        "last event": of["last_event"] or "-",
        **({} if rate is None else {"rec/s": f"{rate:,.0f}"}),
        "oldest": "" if oldest is None else duration(oldest),
        "fenced": of.get("fenced"),
        "dup": of.get("duplicates"),
        "dropped": of["dropped"],
        "end": of["end"],
        "generation": of.get("generation"),
        "stalled since": of.get("stalled_since") or "",
    }


def _generation_cells(status: Status) -> list[Cells]:
    return [_one_generation(one) for one in status.beside]


def _one_generation(one: GenerationStatus) -> Cells:
    return {
        "projection": one.projection,
        "generation": one.generation,
        "state": one.state,
        "partitions": one.partitions,
        "position": one.processed,
        "behind live": one.behind,
        "done": f"{one.processed / max(1, one.end):.1%}",
        "left": "" if one.left_s is None else duration(one.left_s),
    }


def _sealed_cells(status: Status) -> list[Cells]:
    return [
        {
            "contest": one.contest,
            "title": one.title,
            "closing": str(one.seal.seq),
            "sealed at": timestamp(one.seal.sealed_at) or "",
            "sha256": one.seal.sha256,
        }
        for one in status.sealed
    ]


def _shortened(rows: Sequence[Cells], now: str) -> list[Cells]:
    """Abbreviate times (today: the time, other days: the date) and the column `partition`."""
    return [
        {("part" if name == "partition" else name): _time(str(value), now) if name == "last event" else value
         for name, value in row.items()}
        for row in rows
    ]  # fmt: skip


def _time(text: str, now: str) -> str:
    return text[DAY + 1 : DAY + 9] if text[:DAY] == now[:DAY] else text[:DAY]


def duration(seconds: float) -> str:
    """Return the duration in its largest unit and the next smaller one."""
    if seconds < 60:
        return f"{seconds:.1f}s" if seconds else "0s"
    for (unit, size), (smaller, rest) in zip(UNITS, [*UNITS[1:], ("s", 1)], strict=True):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}{int(seconds % size // rest):02d}{smaller}"
    raise AssertionError("a minute is the smallest unit")
