"""Renders the demo's progress: a table on a terminal, otherwise a line of text."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from libs.contracts.position_token import PositionTokens
from libs.deployment.deployment import Deployment
from libs.tally.errors import TallyError
from libs.views.votes.reply_types import PartitionState
from services.cli.commands.demo.sample_contest import TITLE, Sample
from services.cli.commands.demo.voters import AcceptedResults

EVERY_S: Final = 0.4
STALE_S: Final = 2.5
"""A lag measured longer ago than this is not shown: a server is unavailable."""


class LiveMetrics:
    """Polls counts and lag until cancelled; failed requests are retried."""

    def __init__(self, client: httpx.AsyncClient, contest: str, deployment: Deployment) -> None:
        self.counts: dict[str, Any] | None = None
        """Latest vote count record."""
        self._client = client
        self._path = f"/contests/{contest}/vote_updates/"
        self._deployment = deployment
        self._states: dict[int, PartitionState] = {}
        self._ends: dict[int, int] = {}
        """Ends of the log, read after the states: no state is past its end."""
        self._measured_at = -STALE_S

    @property
    def lag(self) -> int | None:
        """Number of log records not folded yet; None when there is no recent measurement."""
        if time.monotonic() - self._measured_at > STALE_S:
            return None
        return sum(self._ends.values()) - sum(state.position.offset for state in self._states.values())

    @property
    def closed_gates(self) -> int:
        """Number of partitions that accept no votes at present (gate closed)."""
        return sum(not state.open for state in self._states.values())

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Poll while the context is open."""

        async def poll(read: Callable[[], Awaitable[object]]) -> None:
            while True:
                with suppress(TallyError, httpx.HTTPError):
                    await read()
                await asyncio.sleep(EVERY_S)

        tasks = [asyncio.create_task(poll(read)) for read in (self.read_counts, self.read_lag)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    async def read_counts(self, **parameters: str) -> None:
        """Read the vote count record. Raises `httpx.HTTPError`."""
        answer = await self._client.get(self._path, params={"sources": "true", **parameters})
        self.counts = answer.raise_for_status().json()

    async def has_final_counts(self) -> bool:
        """Read the counts at the measured positions: `min_position` prevents an older, cached response."""
        positions = {partition: state.position.offset for partition, state in self._states.items()}
        tokens = PositionTokens(self._deployment.ring("positions"))
        await tokens.load()
        with suppress(httpx.HTTPError):
            await self.read_counts(min_position=tokens.encode(positions))
            return True
        return False

    async def read_lag(self) -> None:
        """Measure the lag. Raises `LogUnavailable` and `ViewsUnavailable`."""
        log, views, reader = self._deployment.votes, self._deployment.vote_views, self._deployment.reader
        states = await asyncio.gather(*map(views.state, log.numbers))
        ends = await reader.end_offsets(log.name, log.numbers)
        self._states, self._ends = dict(zip(log.numbers, states, strict=True)), ends
        self._measured_at = time.monotonic()

    async def has_folded(self) -> bool:
        """Return whether the views are at the log's end, with nothing pending."""
        with suppress(TallyError):
            await self.read_lag()
            states = self._states.values()
            return self.lag == 0 and all(state.open and not state.pending for state in states)
        return False


TITLE_WIDTH: Final = 19
LONGEST_BAR: Final = 44
COLUMNS: Final = (" share", " votes", "  free", "  paid", "voters", " anon.")
REDRAW_S: Final = 0.25
LINE_S: Final = 5.0


@dataclass
class Screen:
    """Renders the current state; `phase` names the current step, `seconds` is the duration (0: unlimited)."""

    sample: Sample
    metrics: LiveMetrics
    results: AcceptedResults
    address: str
    seconds: float
    phase: str = "voting"
    began: float = field(default_factory=time.monotonic)

    def render(self, console: Console) -> RenderableType:
        """Render the table, in at most 20 lines to fit small terminals."""
        head = Table.grid(expand=True)
        head.add_column()
        head.add_column(justify="right")
        head.add_row(f"[bold]{TITLE}[/]  [dim]{escape(self.address)}[/]", f"[dim]{self.phase}  {self._clock()}[/]")
        below = self._answers(), self._refusals(console), self._rates()
        return Padding(Group(head, "", self._table(), "", *map(Text.from_markup, below)), (1, 1, 0, 1))

    def line(self) -> str:
        """Return the state as one short line, for logs; the result lists the reasons of refusals."""
        results, lag = self.results, self.metrics.lag
        _, p99 = results.recent_times()
        counted = (self.metrics.counts or {}).get("count", 0)
        return (
            f"{self._clock()} {self.phase}: {counted:,} votes, {results.rate():.0f}/s, p99 {p99 * 1000:.0f} ms, "
            f"lag {'?' if lag is None else lag}, refused {results.refusals.total():,}"
        )

    def _clock(self) -> str:
        now = time.monotonic() - self.began
        if not self.seconds:
            return _minutes(now)
        return f"{_minutes(min(now, self.seconds))} of {_minutes(self.seconds)}"

    def _table(self) -> RenderableType:
        counts = self.metrics.counts or {"participants": {}}
        rows = {key: counts["participants"].get(key, {"count": 0}) for key in self.sample.titles}
        top = max(1, *(row["count"] for row in rows.values()))
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False)
        table.add_column("", no_wrap=True, width=TITLE_WIDTH)
        table.add_column("", max_width=LONGEST_BAR, ratio=1)
        for name in COLUMNS:
            table.add_column(name.strip(), justify="right", min_width=len(name), no_wrap=True)
        for key, title in self.sample.titles.items():
            count = rows[key]["count"]
            bar = ProgressBar(top, count, complete_style="cyan", finished_style="green")
            style = "bold" if count == top else ""
            table.add_row(Text(title, style=style), bar, *_figures(rows[key], counts.get("count", 0)))
        table.add_row("")
        total = _figures(counts | {"vote_sources": counts.get("total_vote_sources")}, 0)
        table.add_row("all", "", *total, style="bold")
        return table

    def _answers(self) -> str:
        results, again = self.results, self.results.retries.total()
        reasons = ", ".join(f"{code} {count:,}" for code, count in results.retries.most_common(3))
        return (
            f"[dim]accepted[/] {len(results.accepted):,}   [dim]repeated[/] {results.replayed:,}   "
            f"[dim]refused[/] {results.refusals.total():,}   [dim]retried[/] "
            + (f"[yellow]{again:,}[/] [dim]({reasons})[/]" if again else "0")
        )

    def _refusals(self, console: Console) -> str:
        """List the most frequent reasons that fit in two lines."""
        line = ""
        for code, count in self.results.refusals.most_common():
            piece = f"{code.replace('_', ' ')} {count:,}"
            if len(line) + len(piece) > 2 * (console.width - 6):
                break
            line += f"{' · ' if line else ''}{piece}"
        return f"[dim]{line}[/]"

    def _rates(self) -> str:
        (p50, p99), lag, closed = self.results.recent_times(), self.metrics.lag, self.metrics.closed_gates
        behind = "[yellow]unavailable[/]" if lag is None else f"{lag:,} [dim]behind[/]"
        if lag is not None and closed:
            behind = f"[yellow]recovering in {closed} partitions[/]"
        return (
            f"{self.results.rate():.0f} [dim]votes/s   responses[/] {p50 * 1000:.0f} ms [dim]p50,[/] "
            f"{p99 * 1000:.0f} ms [dim]p99   projector[/] {behind}"
        )


@asynccontextmanager
async def shown(console: Console, screen: Screen) -> AsyncIterator[None]:
    """Redraw the table every 0.25 s on a terminal, otherwise print a line every 5 s."""
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def draw() -> None:
        if live is None:
            console.out(screen.line(), highlight=False)
        else:
            live.update(screen.render(console), refresh=True)

    async def repeat() -> None:
        while True:
            await asyncio.sleep(REDRAW_S if live else LINE_S)
            draw()

    with live or nullcontext():
        if live:
            draw()
        task = asyncio.create_task(repeat())
        try:
            yield
        finally:
            task.cancel()
            screen.phase = "over" if live else screen.phase
            draw()


def _figures(row: dict[str, Any], total: int) -> tuple[str, ...]:
    """Return a cell for each of `COLUMNS`; the share is empty without a `total`."""
    by_source = {one["source"]: one["count"] for one in row.get("vote_sources") or []}
    count = row.get("count", 0)
    share = f"{100 * count / total:.1f}%" if total else ""
    votes = count, by_source.get("c-free", 0), by_source.get("c-paid", 0)
    voters = row.get("unique_voter_count", 0), row.get("anonymous_voter_count", 0)
    return share, *(f"{number:,}" for number in (*votes, *voters))


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
