"""Renders any command's result: as JSON, as tables and lines on a terminal, and as plain lines elsewhere."""

import dataclasses
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

import orjson
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from libs.contracts.json_form import json_form

UNBOUNDED: Final = 1_000
_NUMBER: Final = re.compile(r"[-+]?\d[\d,.]*(%| ?[A-Za-z]{1,2}(\d\d[a-z])?|/s)?")


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """Rows of named cells, all with the same names: a table on a terminal, otherwise a line each.

    The table has a `title`, each line begins with `prefix`. With `fit`, a terminal shows only the first columns
    that it has room for. Empty cells of lines and empty columns are omitted.
    """

    rows: Sequence[Mapping[str, object]]
    prefix: str = ""
    title: str = ""
    fit: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Either:
    """Blocks for a terminal, and others for plain output."""

    terminal: Sequence["PlainBlock"]
    plain: Sequence["PlainBlock"]


PlainBlock = str | Text | Rows
Block = PlainBlock | Either
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
    for block in _chosen(blocks, console):
        if not isinstance(block, Rows):
            text = block if isinstance(block, Text) else Text(block, no_wrap=True)
            console.print(text, soft_wrap=bool(text.no_wrap) or not console.is_terminal)
        elif not console.is_terminal:
            for line in _lines(block):
                console.print(Text(line), soft_wrap=True)
        else:
            console.print(_table(block, console))


def group(blocks: Iterable[Block], console: Console) -> RenderableType:
    """Return all blocks as one, for redrawing them in place on a terminal."""
    chosen = _chosen(blocks, console)
    return Group(*(_table(block, console) if isinstance(block, Rows) else block for block in chosen))


def new_console(*, stderr: bool = False) -> Console:
    """Return a console without markup and highlighting."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def printable(text: str) -> str:
    """Return untrusted text with control characters escaped, since these may control a terminal."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


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


def _chosen(blocks: Iterable[Block], console: Console) -> Iterator[PlainBlock]:
    for block in blocks:
        if isinstance(block, Either):
            yield from block.terminal if console.is_terminal else block.plain
        elif not isinstance(block, Rows) or block.rows:
            yield block


def _lines(block: Rows) -> Iterator[str]:
    """Yield a line per row; several words are quoted."""
    prefix = f"{block.prefix}: " if block.prefix else ""
    for row in block.rows:
        cells = {name.replace(" ", "_"): cell(value) for name, value in row.items()}
        yield prefix + " ".join(f"{name}={_word(value)}" for name, value in cells.items() if value)


def _table(block: Rows, console: Console) -> Table:
    table = Table(
        box=None, header_style="dim", padding=(0, 1, 0, 0), title=block.title or None, title_justify="left"
    )
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
    while block.fit and console.measure(table, options=options).maximum > console.width:
        table.columns.pop()
    return table


def _word(value: str) -> str:
    return value if len(value.split()) == 1 else json.dumps(value, ensure_ascii=False)
