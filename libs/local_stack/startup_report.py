"""Messages and progress on standard error: a bar on a terminal, otherwise a line every few seconds."""

import threading
import time
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from libs.deployment.deployment import Progress
from libs.telemetry.redaction import redacted

LINE_S: Final = 5.0
COLUMNS: Final = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


class Report(Progress):
    """Lines and progress on standard error, so that standard output stays for results; `quiet`: nothing.

    Several threads may call `advance`.
    """

    def __init__(self, console: Console | None = None, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = console or Console(stderr=True, highlight=False)
        self._bar: Bar | None = None
        self._lock = threading.Lock()
        self._title, self._total, self._done = "", "", 0
        self._began = self._printed = 0.0

    def line(self, text: str, style: str = "") -> None:
        if not self.quiet:
            self.console.print(redacted(text), style=style, markup=False, soft_wrap=True)

    def note(self, line: str) -> None:
        self.line(line, "dim")

    def begin(self, title: str, total: int | None) -> None:
        self.end()
        self._title, self._total, self._done = title, "" if total is None else f" of {total:,}", 0
        self._began = self._printed = time.monotonic()
        if self.console.is_terminal and not self.quiet:
            self._bar = Bar(*COLUMNS, console=self.console, transient=True)
            self._bar.add_task(title, total=total)
            self._bar.start()

    def advance(self, steps: int) -> None:
        with self._lock:
            self._done += steps
            if self._bar is not None:
                self._bar.advance(self._bar.task_ids[0], steps)
            elif (now := time.monotonic()) - self._printed > LINE_S:
                self._printed, rate = now, self._done / max(now - self._began, 1e-6)
                self.note(f"{self._title}: {self._done:,}{self._total}, {rate:,.0f} per second")

    def end(self) -> None:
        """Remove the bar."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()


class Silence(Report):
    """Report that prints nothing."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
