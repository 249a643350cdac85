"""The result of a command, its printing, and the progress in between."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import typer
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from libs.deployment.deployment import Progress
from services.cli.exit_codes import ExitCode
from services.cli.render import Block, Rows, as_json, group, new_console, rows_of, show

LINE_S: Final = 5.0
COLUMNS = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()


@dataclass(frozen=True, slots=True)
class Result:
    """A command's result: `members` for --json, `text` for people, and the exit code."""

    members: object
    text: Iterable[Block] = ()
    code: ExitCode = ExitCode.FINE

    @classmethod
    def listing(cls, name: str, rows: Sequence[object], columns: str = "", none: str = "") -> "Result":
        """Return rows with the one member `name`; as a table of the given `columns`, by default of all members."""
        return cls({name: rows}, [Rows(rows_of(rows, columns.split()))] if rows else [none or f"No {name}."])


class ProgressBar(Progress):
    """Shows a bar if standard error is a terminal, else a line every `LINE_S`, and notes; `quiet`: nothing."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self._console = new_console(stderr=True)
        self._bar: Bar | None = None
        self._title, self._total, self._done = "", 0, 0
        self._began = self._printed = 0.0

    def begin(self, title: str, total: int | None) -> None:
        self.end()
        self._title, self._total, self._done = title, total or 0, 0
        self._began = self._printed = time.monotonic()
        if self._console.is_terminal and not self.quiet:
            self._bar = Bar(*COLUMNS, console=self._console, transient=True)
            self._bar.add_task(title, total=total)
            self._bar.start()

    def advance(self, steps: int) -> None:
        self._done += steps
        if self._bar is not None:
            self._bar.advance(self._bar.task_ids[0], steps)
        elif (now := time.monotonic()) - self._printed > LINE_S:
            self._printed, rate = now, self._done / (now - self._began)
            self.note(f"{self._title}: {self._done:,} of {self._total:,}, {rate:,.0f} per second")

    def note(self, line: str) -> None:
        if not self.quiet:
            self._console.print(line, style="dim", soft_wrap=True)

    def end(self) -> None:
        """Remove the bar."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.stop()


class Output:
    """Prints results as text or JSON; `redraw`: a terminal shows only the latest one."""

    def __init__(self, *, in_json: bool, redraw: bool) -> None:
        self.progress = ProgressBar(quiet=in_json)
        self._in_json = in_json
        self._console = new_console()
        terminal = self._console.is_terminal and not in_json
        self._live = Live(console=self._console, auto_refresh=False) if redraw and terminal else None

    def __enter__(self) -> None:
        if self._live is not None:
            self._live.start()

    def __exit__(self, *_: object) -> None:
        self.progress.end()
        if self._live is not None:
            self._live.stop()

    def show(self, result: Result) -> None:
        self.progress.end()
        if self._in_json:
            typer.echo(as_json(result.members))
        elif self._live is not None:
            self._live.update(group(result.text, self._console), refresh=True)
        else:
            show(result.text, self._console)
