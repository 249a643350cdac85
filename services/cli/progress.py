"""How a long command shows that it goes on."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from libs.telemetry.progress import Progress


class ProgressBar(Progress):
    """A bar on a terminal's standard error, nothing elsewhere."""

    def __init__(self, what: str, *, enabled: bool) -> None:
        console = Console(stderr=True)
        columns = TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
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
