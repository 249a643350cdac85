"""Renders the demo's progress: a table on a terminal, otherwise a line of text."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from services.cli.commands.demo.live_metrics import LiveMetrics
from services.cli.commands.demo.sample_contest import TITLE, Sample
from services.cli.commands.demo.voter_responses import AcceptedResults

EIGHTHS: Final = " ▏▎▍▌▋▊▉"
TITLE_WIDTH: Final = 19
BARS: Final = (4, 44)
"""Minimum and maximum width."""
COLUMNS: Final = (" share", " votes", "  free", "  paid", "voters", " anon.")
LEADER: Final = "green"
OTHERS: Final = "cyan"
QUIET: Final = "dim"
REDRAW_S: Final = 0.25
LINE_S: Final = 5.0


class Screen:
    """Renders the current state; `phase` names the current step, `seconds` is the duration (0: unlimited)."""

    def __init__(
        self, sample: Sample, metrics: LiveMetrics, results: AcceptedResults, address: str, seconds: float
    ) -> None:
        self.phase = "voting"
        self._sample = sample
        self._metrics = metrics
        self._results = results
        self._address = address
        self._seconds = seconds
        self._began = time.monotonic()

    def render(self, console: Console) -> RenderableType:
        """Render the table, in at most 20 lines to fit small terminals."""
        below = Text(""), self._answers(), self._refusals(console), self._rates()
        return Padding(Group(self._head(), self._table(console), *below), (1, 1, 0, 1))

    def line(self) -> str:
        """Return the state as one line, for logs."""
        counts, results = self._metrics.counts or {}, self._results
        p50, p99 = results.recent_times()
        lag = "?" if self._metrics.lag is None else str(self._metrics.lag)
        refused = ", ".join(f"{code} {count}" for code, count in results.refusals.most_common()) or "none"
        retried = ", ".join(f"{code} {count}" for code, count in results.retries.most_common()) or "none"
        times = f"p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms"
        return (
            f"{self._clock()} {self.phase}: {counts.get('count', 0)} votes of "
            f"{counts.get('unique_voter_count', 0)} voters ({counts.get('anonymous_voter_count', 0)} anonymous); "
            f"accepted {len(results.accepted)}, replayed {results.replayed}, {results.rate():.0f}/s, "
            f"{times}, lag {lag}; refused: {refused}; retried: {retried}"
        )

    def _clock(self) -> str:
        now = time.monotonic() - self._began
        if not self._seconds:
            return _minutes(now)
        return f"{_minutes(min(now, self._seconds))} of {_minutes(self._seconds)}"

    def _head(self) -> RenderableType:
        head = Table.grid(expand=True)
        head.add_column()
        head.add_column(justify="right")
        title = Text.assemble((TITLE, "bold"), (f"  {self._address}", QUIET))
        head.add_row(title, Text(f"{self.phase}  {self._clock()}", style=QUIET))
        return Group(head, Text(""))

    def _table(self, console: Console) -> RenderableType:
        counts = self._metrics.counts or {"participants": {}, "total_vote_sources": []}
        total, sources = counts.get("count", 0), counts.get("total_vote_sources") or []
        rows = {key: counts["participants"].get(key, {"count": 0}) for key in self._sample.titles}
        figures = {key: _figures(row, total) for key, row in rows.items()}
        figures["all"] = _figures(counts | {"vote_sources": sources}, 0)
        widths = [max(map(len, cells)) for cells in zip(COLUMNS, *figures.values(), strict=True)]
        room = console.width - TITLE_WIDTH - sum(widths) - len(widths) - 4
        width = min(BARS[1], max(BARS[0], room))
        top = max(row["count"] for row in rows.values())
        table = Table(box=None, padding=(0, 1, 0, 0), header_style=QUIET, pad_edge=False)
        table.add_column("", no_wrap=True, width=TITLE_WIDTH)
        table.add_column("", no_wrap=True, width=width)
        for name in COLUMNS:
            table.add_column(name.strip(), justify="right", min_width=len(name), no_wrap=True)
        for key, title in self._sample.titles.items():
            leads = rows[key]["count"] == top > 0
            bar = Text(_bar(rows[key]["count"], top, width, console), style=LEADER if leads else OTHERS)
            table.add_row(Text(title, style="bold" if leads else ""), bar, *figures[key])
        table.add_row("")
        table.add_row("all", "", *figures["all"], style="bold")
        return table

    def _answers(self) -> RenderableType:
        results = self._results
        refused = sum(results.refusals.values())
        again = sum(results.retries.values())
        line = Text.assemble(
            ("accepted ", QUIET), f"{len(results.accepted):,}", ("   repeated ", QUIET), f"{results.replayed:,}"
        )
        line.append("   refused ", QUIET).append(f"{refused:,}")
        line.append("   retried ", QUIET).append(f"{again:,}", "yellow" if again else "")
        if again:
            reasons = ", ".join(f"{code} {count:,}" for code, count in results.retries.most_common(3))
            line.append(f" ({reasons})", QUIET)
        line.truncate(200)
        return line

    def _refusals(self, console: Console) -> RenderableType:
        """List the most frequent reasons that fit in two lines."""
        line = Text(style=QUIET)
        for code, count in self._results.refusals.most_common():
            piece = f"{code.replace('_', ' ')} {count:,}"
            if len(line) + len(piece) > 2 * (console.width - 6):
                break
            line.append(f"{' · ' if line else ''}{piece}")
        return line

    def _rates(self) -> RenderableType:
        p50, p99 = self._results.recent_times()
        metrics = self._metrics
        line = Text.assemble(f"{self._results.rate():.0f}", (" votes/s   responses ", QUIET))
        line.append(f"{p50 * 1000:.0f} ms").append(" p50, ", QUIET).append(f"{p99 * 1000:.0f} ms")
        line.append(" p99   projector ", QUIET)
        if metrics.lag is None:
            line.append("unavailable", "yellow")
        elif metrics.closed_gates:
            line.append(f"recovering in {metrics.closed_gates} partitions", "yellow")
        else:
            line.append(f"{metrics.lag:,}").append(" behind", QUIET)
        return line


@asynccontextmanager
async def shown(console: Console, screen: Screen) -> AsyncIterator[None]:
    """Redraw the table every 0.25 s on a terminal, otherwise print a line every 5 s."""

    async def redraw(live: Live) -> None:
        while True:
            live.update(screen.render(console), refresh=True)
            await asyncio.sleep(REDRAW_S)

    async def write() -> None:
        while True:
            await asyncio.sleep(LINE_S)
            console.out(screen.line(), highlight=False)

    if not console.is_terminal:
        task = asyncio.create_task(write())
        try:
            yield
        finally:
            task.cancel()
            console.out(screen.line(), highlight=False)
        return
    with Live(screen.render(console), console=console, auto_refresh=False) as live:
        task = asyncio.create_task(redraw(live))
        try:
            yield
        finally:
            task.cancel()
            screen.phase = "over"
            live.update(screen.render(console), refresh=True)


def _figures(row: dict[str, Any], total: int) -> tuple[str, ...]:
    """Return a cell for each of `COLUMNS`; the share is empty without a `total`."""
    by_source = {one["source"]: one["count"] for one in row.get("vote_sources") or []}
    count = row.get("count", 0)
    share = f"{100 * count / total:.1f}%" if total else ""
    votes = count, by_source.get("c-free", 0), by_source.get("c-paid", 0)
    voters = row.get("unique_voter_count", 0), row.get("anonymous_voter_count", 0)
    return share, *(f"{number:,}" for number in (*votes, *voters))


def _bar(count: int, top: int, width: int, console: Console) -> str:
    """Return a bar; the largest count fills the width."""
    if not top:
        return ""
    if not console.encoding.startswith("utf"):
        return "#" * round(count / top * width)
    eighths = round(count / top * width * 8)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _minutes(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 60}:{whole % 60:02d}"
