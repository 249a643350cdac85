"""Prints a command's results, and its progress in between."""

from collections.abc import Callable, Iterable
from typing import Any

import typer
from rich.live import Live

from services.cli.progress import ProgressBar
from services.cli.render import Block, as_json, group, new_console, show

Text = Callable[[Any], Iterable[Block]]
"""Renders a result for people."""


class Output:
    """Prints results as text or JSON; `redraw`: a terminal shows only the latest one."""

    def __init__(self, text: Text, *, in_json: bool, redraw: bool) -> None:
        self.progress = ProgressBar(quiet=in_json)
        self._text = text
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

    def show(self, result: object) -> None:
        self.progress.end()
        if self._in_json:
            typer.echo(as_json(result))
        elif self._live is not None:
            self._live.update(group(self._text(result), self._console), refresh=True)
        else:
            show(self._text(result), self._console)
