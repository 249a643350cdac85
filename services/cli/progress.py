"""Progress bar of long commands."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from libs.telemetry.progress import Progress


class ProgressBar(Progress):
    """Shows a bar if standard error is a terminal, otherwise nothing."""

    def __init__(self, title: str, *, enabled: bool) -> None:
        console = Console(stderr=True)
        columns = TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        self._bar = Bar(*columns, console=console, transient=True) if enabled and console.is_terminal else None
        self._task = None if self._bar is None else self._bar.add_task("", total=None)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, total: int) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=total)

    def advance(self, steps: int) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, steps)
