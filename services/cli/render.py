"""Renders any command's result: as JSON for programs, as lines and aligned tables for people."""

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

import orjson
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from libs.contracts.dataclass_json import json_form

UNBOUNDED: Final = 1_000
_NUMBER: Final = re.compile(r"[-+]?\d[\d,.]*(%| ?[A-Za-z]{1,2}(\d\d[a-z])?|/s)?")


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """Rows of named cells, all with the same names: a table, without the columns that are empty.

    With `fit`, a terminal shows only the first columns that it has room for; a file or pipe gets all.
    """

    rows: Sequence[Mapping[str, object]]
    fit: bool = False


Block = str | Text | Rows
"""A `str` is not wrapped, so that it can be copied; a `Text` is, on a terminal, unless it is `no_wrap`."""


@runtime_checkable
class HasOwnJson(Protocol):
    """A result whose JSON is given byte for byte, such as a certificate."""

    def canonical(self) -> bytes: ...


def as_json(result: object) -> str:
    own = result.canonical() if isinstance(result, HasOwnJson) else orjson.dumps(json_form(result))
    return own.decode()


def fields(result: object) -> Iterator[Block]:
    """Yield a line for each member, and a table for each list of rows: the default text of a result."""
    for name, value in json_form(result).items():
        words = name.replace("_", " ")
        if isinstance(value, list) and all(isinstance(one, dict) for one in value):
            yield Rows(value) if value else f"No {words}."
        else:
            yield f"{words}: {cell(value)}"


def show(blocks: Iterable[Block], console: Console) -> None:
    for block in blocks:
        if not isinstance(block, Rows):
            text = block if isinstance(block, Text) else Text(block, no_wrap=True)
            console.print(text, soft_wrap=bool(text.no_wrap) or not console.is_terminal)
        elif block.rows and console.is_terminal:
            console.print(_table(block, console))
        elif block.rows:
            for line in _aligned(_table(block, console), console):
                console.print(line, soft_wrap=True)


def group(blocks: Iterable[Block], console: Console) -> RenderableType:
    """Return all blocks as one, for redrawing them in place on a terminal."""
    shown = (block for block in blocks if not isinstance(block, Rows) or block.rows)
    return Group(*(_table(block, console) if isinstance(block, Rows) else block for block in shown))


def new_console(*, stderr: bool = False) -> Console:
    """Return a console without markup and highlighting."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def printable(text: str) -> str:
    """Return untrusted text with control characters escaped, since these may control a terminal."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


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


def _table(block: Rows, console: Console) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 1, 0, 0))
    texts = [[one if isinstance(one, Text) else cell(one) for one in row.values()] for row in block.rows]
    columns = [(name, column) for name, column in zip(block.rows[0], zip(*texts, strict=True), strict=True)]
    columns = [(name, column) for name, column in columns if any(column)]
    for name, column in columns:
        is_number = all(_NUMBER.fullmatch(str(text)) for text in column if text)
        # Keys and times are not cut off.
        least = max(map(len, column)) if not any(" " in str(text) for text in column) else None
        table.add_column(name.replace("_", " "), justify="right" if is_number else "left", min_width=least)
    for row in zip(*(column for _, column in columns), strict=True):
        table.add_row(*row)
    options = console.options.update(width=UNBOUNDED)
    while block.fit and console.is_terminal and console.measure(table, options=options).maximum > console.width:
        table.columns.pop()
    return table
