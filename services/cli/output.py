"""The result of a command: as JSON for programs, as lines and aligned tables for people, and its exit code."""

import asyncio
import logging
import re
import unicodedata
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import orjson
import typer
import uvloop
from pydantic import ValidationError
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typer import Exit

from libs.contracts.ndjson_codec import json_form
from libs.local_stack.errors import StackError
from libs.local_stack.startup_report import Report
from libs.tally.errors import TallyError
from libs.telemetry.environment_settings import describe_problems
from libs.telemetry.redaction import redacted
from services.cli.deployment_discovery import NoDeployment


class ExitCode(IntEnum):
    """Exit codes of the `tally` command."""

    FINE = 0
    PROBLEM = 1
    BAD_USAGE = 2
    SERVER_AWAY = 3

    @classmethod
    def fine_if(cls, condition: bool) -> "ExitCode":
        return cls.FINE if condition else cls.PROBLEM


BAD_USAGE_CODES: Final = frozenset({"validation_failed", "not_found"})
"""Codes of errors caused by arguments; all other permanent errors exit with `PROBLEM`."""


def run(work: Coroutine[Any, Any, ExitCode]) -> None:
    """Run a command; always raises `Exit`. Expected errors print no traceback."""
    for noisy in ("aiokafka", "kafka", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    try:
        ending = uvloop.run(work)
    except NoDeployment as error:
        ending = print_error(str(error), ExitCode.SERVER_AWAY)
    except TallyError as error:
        if error.code in BAD_USAGE_CODES:
            ending = print_error(printable(error.message), ExitCode.BAD_USAGE)
        elif error.retry_after_s is None:
            ending = print_error(printable(str(error)), ExitCode.PROBLEM)
        else:
            ending = print_error(
                f"{str(error).rstrip('.')}. Run `tally doctor` for details.", ExitCode.SERVER_AWAY
            )
    except ValidationError as error:
        ending = print_error(describe_problems(error), ExitCode.BAD_USAGE)
    except StackError as error:
        ending = print_error(error.message, ExitCode(int(error.exit_code)))
    except asyncio.CancelledError:
        # Only a library cancels a command (Ctrl-C is a KeyboardInterrupt), when its connection ends.
        ending = print_error(
            "A connection to a server ended: run it again. Run `tally doctor` for details.",
            ExitCode.SERVER_AWAY,
        )
    except KeyboardInterrupt:
        ending = print_error("Interrupted.", ExitCode.PROBLEM)
    raise Exit(ending)


def print_error(message: str, ending: ExitCode) -> ExitCode:
    """Print the message without secrets; return the exit code."""
    typer.echo(f"Error: {redacted(message)}", err=True)
    return ending


UNBOUNDED: Final = 1_000
LEAST_TEXT: Final = 16
"""Width that a text of several words needs at least."""
FIRST_COLUMNS: Final = 3
"""Columns that a table which hides others keeps; if they do not fit, its rows become records."""
_NUMBER: Final = re.compile(r"[-+]?\d[\d,.]*(%| ?[A-Za-z]{1,2}(\d\d[a-z])?|/s)?")


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of named cells, all with the same names: a table, without the columns that are empty.

    Where a terminal has no room for all columns, each row becomes a record of a line for each cell. With `fit` it
    shows the first columns instead, and names those that it hides. A file or pipe gets the whole table.
    """

    rows: Sequence[Mapping[str, object]]
    fit: bool = False


Block = str | Text | Rows
"""A `str` is not wrapped, so that it can be copied; a `Text` is, on a terminal, unless it is `no_wrap`.

Each is one line or table: line ends, and all that could control a terminal, are escaped when it is shown, so that
titles and other texts of clients neither forge lines nor change what is on the screen.
"""


def as_json(members: object) -> str:
    """Return a result's members as one line; bytes, such as a certificate, are JSON already."""
    return (members if isinstance(members, bytes) else orjson.dumps(json_form(members))).decode()


def rows_of(records: Sequence[object], columns: Sequence[str] = ()) -> list[dict[str, object]]:
    """Return a row for each record, with the members that `columns` name in this order, by default all."""
    rows = map(json_form, records)
    return [{name: row[name] for name in columns} if columns else row for row in rows]


def show(blocks: Iterable[Block], console: Console) -> None:
    for block in blocks:
        if not isinstance(block, Rows):
            text = _line(block)
            console.print(text, soft_wrap=bool(text.no_wrap) or not console.is_terminal)
        elif block.rows and console.is_terminal:
            console.print(_shown(block, console))
        elif block.rows:
            for line in _aligned(_table(_columns(block)), console):
                console.print(line, soft_wrap=True)


def group(blocks: Iterable[Block], console: Console) -> RenderableType:
    """Return all blocks as one, for redrawing them in place on a terminal."""
    shown = (block for block in blocks if not isinstance(block, Rows) or block.rows)
    return Group(*(_shown(block, console) if isinstance(block, Rows) else _line(block) for block in shown))


def new_console(*, stderr: bool = False) -> Console:
    """Return a console without markup and highlighting."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


CONTROLS: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that are escaped: controls, formats such as the direction of writing, and line ends."""
JOINERS: Final = frozenset("\u200c\u200d")
"""Formats that words and pictures are written with."""


def printable(text: str) -> str:
    """Return the text with characters escaped that have no form of their own, and may control a terminal."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if unicodedata.category(character) in CONTROLS and character not in JOINERS:
        return character.encode("unicode_escape").decode()
    return character


def _line(block: str | Text) -> Text:
    """Return the block as one line, as it is shown."""
    return _printable_text(block) if isinstance(block, Text) else Text(printable(block), no_wrap=True)


def _printable_text(text: Text) -> Text:
    """Return the text as `printable`, with its styles."""
    if text.plain.isprintable():
        return text
    escaped, begin = text.blank_copy(), 0
    for at, character in enumerate(text.plain):
        if (shown := _escaped(character)) != character:
            escaped.append_text(text[begin:at]).append(shown)
            begin = at + 1
    return escaped.append_text(text[begin:])


def plural(number: int, noun: str) -> str:
    """Return the number with the noun: 1 vote, 2 votes."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case Mapping():
            return " ".join(f"{name}={cell(one)}" for name, one in value.items())
        case str() | Text():
            return str(value)
        case Collection():
            return " ".join(map(cell, value))
    return str(value)


def _aligned(table: Table, console: Console) -> Iterator[str]:
    """Yield the table's lines in full width."""
    options = console.options.update(width=UNBOUNDED)
    options = options.update(width=console.measure(table, options=options).maximum)
    for line in console.render_lines(table, options, pad=False):
        yield "".join(segment.text for segment in line).rstrip()


Columns = list[tuple[str, Sequence[str | Text]]]


def _columns(block: Rows) -> Columns:
    """Return the names and cells of the columns that are not empty."""
    texts = [
        [_printable_text(one) if isinstance(one, Text) else printable(cell(one)) for one in row.values()]
        for row in block.rows
    ]
    columns = zip(block.rows[0], zip(*texts, strict=True), strict=True)
    return [(name.replace("_", " "), column) for name, column in columns if any(column)]


def _shown(block: Rows, console: Console) -> RenderableType:
    """Return the block as a terminal of this width shows it."""
    columns, hidden = _columns(block), list[str]()
    while _least_width(columns) > console.width and (block.fit and len(columns) > FIRST_COLUMNS):
        hidden.insert(0, columns.pop()[0])
    if _least_width(columns) > console.width:
        return Group(*_records(columns))
    if hidden:
        note = f"Hidden at this width: {', '.join(hidden)}. A wider terminal, a pipe or --json shows them."
        return Group(_table(columns, console.width), Text(note, style="dim"))
    return _table(columns, console.width)


def _longest(column: Sequence[str | Text]) -> int:
    return max(len(str(text)) for text in column)


def _least(column: Sequence[str | Text]) -> int:
    """Return the width that a column needs: texts wrap, but keys, numbers, times and words are not broken."""
    words = (word for text in column for word in str(text).split())
    return min(_longest(column), max(LEAST_TEXT, *map(len, words))) if _has_words(column) else _longest(column)


def _has_words(column: Sequence[str | Text]) -> bool:
    return any(" " in str(text) for text in column)


def _least_width(columns: Columns) -> int:
    return sum(max(len(name), _least(column)) + 1 for name, column in columns)


def _records(columns: Columns) -> Iterator[RenderableType]:
    """Yield a table of two columns for each row: names and values, which wrap."""
    name_width = max(len(name) for name, _ in columns)
    for row in zip(*(column for _, column in columns), strict=True):
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
        table.add_column(style="dim", min_width=name_width)
        table.add_column(overflow="fold")
        for (name, _), text in zip(columns, row, strict=True):
            if text:
                table.add_row(name, text)
        yield Group(table, "")


def _table(columns: Columns, width: int = UNBOUNDED) -> Table:
    """Return a table in which texts share the width that is left, those that need little of it first."""
    table = Table(box=None, header_style="dim", padding=(0, 1, 0, 0))
    widths = [max(len(name), _least(column)) for name, column in columns]
    needs = sorted((_longest(column) - widths[at], at) for at, (_, column) in enumerate(columns))
    left = max(0, width - _least_width(columns))
    for rank, (need, at) in enumerate(needs):
        more = min(max(0, need), left // (len(needs) - rank))
        widths[at], left = widths[at] + more, left - more
    for own, (name, column) in zip(widths, columns, strict=True):
        is_number = all(_NUMBER.fullmatch(str(text)) for text in column if text)
        table.add_column(name, justify="right" if is_number else "left", width=own, overflow="fold")
    for row in zip(*(column for _, column in columns), strict=True):
        table.add_row(*row)
    return table


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
        cls,
        members: Mapping[str, object],
        text: Iterable[Block],
        executed: bool,
        done: str,
        to: str,
        nothing: str = "",
    ) -> "Result":
        """Return a change: its effect, and what was done, or what it takes --execute `to` do.

        `nothing` says instead that there was nothing to do.
        """
        ending = nothing or (done if executed else f"Run again with --execute to {to}.")
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
