"""Renders the demo's progress: a table on a terminal, otherwise a line of text."""

import asyncio
import shlex
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from libs.contracts.ndjson_codec import HIDDEN
from libs.contracts.position_token import PositionTokens
from libs.deployment.deployment import Deployment
from libs.storage.secret_rings import SecretRing
from libs.tally.errors import TallyError
from libs.views.votes.reply_types import PartitionState
from services.cli.commands.demo.sample_contest import TITLE, CheckResult, Sample
from services.cli.commands.demo.voters import AcceptedResults, Answers
from services.cli.commands.verify import differences_text, figures_text
from services.cli.deployment_discovery import DATA_DIR
from services.cli.render import Block, Rows

EVERY_S: Final = 0.4
STALE_S: Final = 2.5
"""A lag measured longer ago than this is not shown: a server is unavailable."""


class Measured(NamedTuple):
    """States of the partitions, and the log's ends read after them: no state is past its end."""

    states: Mapping[int, PartitionState] = {}
    ends: Mapping[int, int] = {}
    at: float = -STALE_S
    """Time of the monotonic clock."""


class LiveMetrics:
    """Polls counts and lag until cancelled; failed requests are retried."""

    def __init__(self, client: httpx.AsyncClient, contest: str, deployment: Deployment) -> None:
        self.counts: dict[str, Any] | None = None
        """Latest vote count record."""
        self._client = client
        self._path = f"/contests/{contest}/vote_updates/"
        self._topic = deployment.votes
        self._reader = deployment.reader
        self._views = deployment.vote_views
        self._deployment = deployment
        self._etag = ""
        self._measured = Measured()

    @property
    def lag(self) -> int | None:
        """Number of log records not folded yet; None when there is no recent measurement."""
        states, ends, at = self._measured
        if time.monotonic() - at > STALE_S:
            return None
        return sum(ends.values()) - sum(state.position.offset for state in states.values())

    @property
    def closed_gates(self) -> int:
        """Number of partitions that accept no votes at present (gate closed)."""
        return sum(not state.open for state in self._measured.states.values())

    @property
    def pending(self) -> int:
        """Number of votes reserved and not folded yet."""
        return sum(state.pending for state in self._measured.states.values())

    async def watch(self) -> None:
        async def poll(read: Any) -> None:
            while True:
                with suppress(TallyError, httpx.HTTPError):
                    await read()
                await asyncio.sleep(EVERY_S)

        await asyncio.gather(poll(self.read_counts), poll(self.read_lag))

    async def read_counts(self) -> None:
        """Read the vote count record. Raises `httpx.HTTPError`."""
        answer = await self._client.get(
            self._path, params={"sources": "true"}, headers={"if-none-match": self._etag}
        )
        if answer.status_code == httpx.codes.OK:
            self.counts = answer.json()
            self._etag = answer.headers.get("etag", "")

    async def read_final_counts(self) -> None:
        """Read the counts at the measured positions: `min_position` prevents an older, cached response."""
        positions = {each: state.position.offset for each, state in self._measured.states.items()}
        tokens = PositionTokens(SecretRing(self._deployment.store, "positions"))
        await tokens.load()
        answer = await self._client.get(
            self._path, params={"sources": "true", "min_position": tokens.encode(positions)}
        )
        answer.raise_for_status()
        self.counts = answer.json()

    async def read_lag(self) -> None:
        """Measure the lag. Raises `LogUnavailable` and `ViewsUnavailable`."""
        partitions = self._topic.numbers
        states = await asyncio.gather(*map(self._views.state, partitions))
        ends = await self._reader.end_offsets(self._topic.name, partitions)
        self._measured = Measured(dict(zip(partitions, states, strict=True)), ends, time.monotonic())

    async def wait_until_folded(self, timeout_s: float) -> bool:
        """Return whether the views reach the log's end within `timeout_s`, with nothing pending."""
        deadline = time.monotonic() + timeout_s
        while True:
            with suppress(TallyError):
                await self.read_lag()
                if self.lag == 0 and self.pending == 0 and self.closed_gates == 0:
                    return True
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.1)


MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Responses to the simulated voters, and the comparison of the counts with them and with the log."""

    base_url: str
    contest_key: str
    answers: Answers
    check: CheckResult
    titles: dict[str, str] = field(metadata=HIDDEN)


def introduce(console: Console, stack: dict[str, Any], sample: Sample, data_dir: Path, page: str) -> None:
    """Print the URLs, the key, and commands to paste into another terminal; lines are not wrapped."""
    base, contest = stack["base_url"], f"{stack['base_url']}/contests/{sample.key}"
    where = "" if data_dir == DATA_DIR else f" --data-dir {shlex.quote(str(data_dir))}"
    vote = f'{{"participant_key": "{next(iter(sample.titles))}", "voter_id": "me"}}'
    bearer = '-H "Authorization: Bearer $TALLY_API_KEY"'
    lines = [
        f"[bold]Tallykeeper[/] runs at [bold]{escape(base)}[/]",
        f"Vote yourself: [bold]{escape(page)}/?contest={sample.key}[/]",
        f"Dashboard: [bold]{escape(stack['dashboard_url'])}/contests/{sample.key}[/]",
        f"  [dim]log in with the key below, or by[/] tally dashboard {sample.key}{escape(where)}",
        "",
        "[dim]In another terminal, cast a vote and read the count:[/]",
        f"  export TALLY_API_KEY={escape(stack['api_key'])}",
        f"  curl -X POST {contest}/votes \\",
        f"    {bearer} \\",
        "    -H 'Content-Type: application/json' \\",
        f"    -d {escape(shlex.quote(vote))}",
        f"  curl {contest}/vote_updates/ \\",
        f"    {bearer}",
        "[dim]or kill the projector; no vote is lost or counted twice:[/]",
        f"  kill -9 {stack['pids'].get('projector', '')}; tally status{escape(where)}",
        "",
    ]
    for line in lines:
        console.print(line, soft_wrap=True)


def demo_text(result: DemoResult) -> Iterator[Block]:
    """Yield the figures and differences, and the result last."""
    answers, check = result.answers, result.check
    yield (
        f"\nAccepted {check.vote_ids_accepted:,} votes, "
        f"confirmed {answers.replayed:,} repeated ones and refused {sum(answers.refused.values()):,}; "
        f"{sum(answers.sent_again.values()):,} requests were retried. "
        f"Response times: {answers.p50_ms:.0f} ms (p50), {answers.p99_ms:.0f} ms (p99)."
    )
    refused = sorted(answers.refused.items(), key=lambda one: (-one[1], one[0]))
    yield Rows([{"refused because of": code, "votes": count} for code, count in refused])
    if check.vote_ids_in_doubt:
        yield Text(f"{check.vote_ids_in_doubt:,} votes had no final response at the end.", style="yellow")
    if check.vote_ids_of_others:
        yield f"{check.vote_ids_of_others:,} votes came from others, perhaps from you."
    if not check.processed_to_the_end:
        yield Text("The views did not reach the end of the log in time.", style="red")
    yield from figures_text(check.verify)
    yield from differences_text(check.verify)
    yield from _list("accepted, but not counted", check.accepted_but_not_counted)
    yield from _list("counted, but refused", check.counted_but_refused)
    yield from _list("counted differently", [_titled(text, result.titles) for text in check.miscounted])
    if check.equal:
        equal = Text("The counts equal those computed from the log:", style="bold green")
        accepted = check.vote_ids_accepted
        ids = f" {accepted:,} vote ids accepted, {accepted:,} counted, {check.votes_by_the_log:,} votes."
        yield equal.append(ids, style="not bold default")
    else:
        yield Text("The counts do not equal those computed from the log.", style="bold red")


def _list(title: str, rows: list[str]) -> Iterator[Block]:
    if rows:
        yield Text(f"{len(rows):,} {title}:", style="red")
        yield from (f"  {row}" for row in rows[:MOST_SHOWN])


def _titled(text: str, titles: dict[str, str]) -> str:
    key, _, rest = text.partition(" ")
    return f"{titles.get(key, key)} {rest}"


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
        """Return the state as one short line, for logs; the result lists the reasons of refusals."""
        results, lag = self._results, self._metrics.lag
        _, p99 = results.recent_times()
        counted = (self._metrics.counts or {}).get("count", 0)
        return (
            f"{self._clock()} {self.phase}: {counted:,} votes, {results.rate():.0f}/s, p99 {p99 * 1000:.0f} ms, "
            f"lag {'?' if lag is None else lag}, refused {sum(results.refusals.values()):,}"
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
