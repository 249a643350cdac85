"""Progress of long commands, on standard error."""

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from libs.telemetry.progress import Progress
from services.cli.render import new_console

COLUMNS = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()


class ProgressBar(Progress):
    """Shows a bar if standard error is a terminal, and notes; `quiet`: nothing."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self._console = new_console(stderr=True)
        self._bar: Bar | None = None

    def begin(self, title: str, total: int | None) -> None:
        self.end()
        if self._console.is_terminal and not self.quiet:
            self._bar = Bar(*COLUMNS, console=self._console, transient=True)
            self._bar.add_task(title, total=total)
            self._bar.start()

    def advance(self, steps: int) -> None:
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], steps)

    def note(self, line: str) -> None:
        if not self.quiet:
            self._console.print(line, style="dim", soft_wrap=True)

    def end(self) -> None:
        """Remove the bar."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()
