"""Shows a replay's progress: a bar per partition on a terminal, otherwise a line every 5 s.

On a terminal with fewer lines than partitions only unfinished partitions are shown.
"""

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as BarTable
from rich.text import Text

from libs.deployment.deployment import Progress

LINE_S: Final = 5.0
ALL: Final = -1


class Bars:
    """Progress bars; counts the folded events and measures their rate."""

    def __init__(self, title: str, starts: Mapping[int, int], ends: Mapping[int, int], progress: Progress) -> None:
        """`starts` and `ends` are offsets by partition; an end may be passed."""
        self._title = title
        self._starts = dict(starts)
        self._at = dict(starts)
        self._ends = dict(ends)
        self._began = self._printed = time.monotonic()
        console = Console(stderr=True)
        self._note = progress.note
        columns = (
            TextColumn("{task.description}", justify="right"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
        )
        shown = not progress.quiet and console.is_terminal
        self._bar = BarTable(*columns, console=console, transient=True, expand=True) if shown else None
        self._roomy = len(self._starts) < console.height - 1
        self._tasks: dict[int, TaskID] = {}
        self._took: float | None = None

    def __enter__(self) -> Self:
        if self._bar is not None:
            for partition, start in self._starts.items():
                end, name = self._ends[partition], f"{self._title} {partition}"
                self._tasks[partition] = self._bar.add_task(name, total=end, completed=start, visible=self._roomy)
            ends, starts = sum(self._ends.values()), sum(self._starts.values())
            self._tasks[ALL] = self._bar.add_task("all", total=ends, completed=starts)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._took = self.seconds
        if self._bar is not None:
            self._bar.stop()

    @property
    def events(self) -> int:
        return sum(self._at.values()) - sum(self._starts.values())

    @property
    def seconds(self) -> float:
        return self._took if self._took is not None else time.monotonic() - self._began

    @property
    def events_per_s(self) -> float:
        return self.events / max(self.seconds, 1e-6)

    def update(self, partition: int, offset: int) -> None:
        self._at[partition] = offset
        self._ends[partition] = max(self._ends[partition], offset)
        if self._bar is not None:
            end = self._ends[partition]
            self._bar.update(
                self._tasks[partition], completed=offset, total=end, visible=self._roomy or offset < end
            )
            self._bar.update(self._tasks[ALL], completed=sum(self._at.values()), total=sum(self._ends.values()))
        elif time.monotonic() - self._printed > LINE_S:
            self._printed = time.monotonic()
            self._note(self._line())

    def _line(self) -> str:
        at, end, rate = sum(self._at.values()), sum(self._ends.values()), self.events_per_s
        left = (end - at) / max(rate, 1)
        return f"{self._title}: {at:,} of {end:,} events, {rate:,.0f} per second, {left:,.0f} s left"


class _Rate(ProgressColumn):
    """Column with the events per second."""

    def render(self, task: Task) -> Text:
        rate = task.finished_speed or task.speed
        return Text("" if rate is None else f"{rate:,.0f}/s", justify="right")
