"""Prints the stack's messages and progress: bars on a terminal, otherwise plain lines."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from libs.telemetry.redaction import redacted


class Report:
    """Lines and progress bars on standard error, so that standard output stays for results."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)

    def line(self, text: str) -> None:
        self.console.print(redacted(text), markup=False, soft_wrap=True)

    @contextmanager
    def progress(self, title: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
        """Yield a thread-safe function that adds a number of bytes to the progress."""
        if self.console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
            with Progress(*columns, console=self.console) as bar:
                task = bar.add_task(title, total=total_bytes)
                yield lambda done: bar.advance(task, done)
        else:
            with self._quarters(title, total_bytes) as advance:
                yield advance

    @contextmanager
    def _quarters(self, title: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
        lock, done, printed = threading.Lock(), 0, 0

        def advance(more: int) -> None:
            nonlocal done, printed
            with lock:
                done += more
                quarter = 4 * done // max(1, total_bytes)
                if quarter > printed:
                    printed = quarter
                    self.line(f"{title}: {25 * quarter} %")

        self.line(f"{title}: {total_bytes / 1e6:.0f} MB")
        yield advance


class Silence(Report):
    """Report that prints nothing."""

    def __init__(self) -> None:
        super().__init__(Console(quiet=True))
