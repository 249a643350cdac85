"""The result of a command, its printing, and the progress in between."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import typer
from rich.live import Live

from libs.local_stack.startup_report import Report
from services.cli.exit_codes import ExitCode
from services.cli.render import Block, Rows, as_json, group, new_console, rows_of, show


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

    @classmethod
    def change(
        cls, members: Mapping[str, object], text: Iterable[Block], executed: bool, done: str, to: str
    ) -> "Result":
        """Return a change: its effect, and what was done, or what it takes --execute `to` do."""
        ending = done if executed else f"Run again with --execute to {to}."
        return cls({**members, "executed": executed}, [*text, ending])


class Output:
    """Prints results as text or JSON; `redraw`: a terminal shows only the latest one."""

    def __init__(self, *, in_json: bool, redraw: bool) -> None:
        self.progress = Report(new_console(stderr=True), quiet=in_json)
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
