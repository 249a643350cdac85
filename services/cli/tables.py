"""Renders rows of named cells as a table on a terminal, otherwise as lines."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table

Cells = Mapping[str, str]
UNBOUNDED = 1_000


def printable(text: str) -> str:
    """Return untrusted text with control characters escaped, since these may control a terminal."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def plain_console() -> Console:
    """Return a console without markup, highlighting and wrapping."""
    return Console(highlight=False, soft_wrap=True, markup=False, emoji=False)


def table_of(rows: Sequence[Cells], *, left: Collection[str] = (), title: str | None = None) -> Table:
    """Build a table; `left` names the left-aligned text columns. All rows have the same columns."""
    table = Table(box=None, header_style="dim", padding=(0, 1, 0, 0), title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(name, justify="left" if name in left else "right")
    for row in rows:
        table.add_row(*row.values())
    return table


def fitted(console: Console, table: Table) -> Table:
    """Drop the last columns that do not fit the console; --json has all of them."""
    options = console.options.update(width=UNBOUNDED)
    while console.measure(table, options=options).maximum > console.width:
        table.columns.pop()
    return table


def lines_of(rows: Sequence[Cells], title: str = "") -> Iterator[str]:
    """Yield a line per row; empty cells are omitted, several words are quoted."""
    for row in rows:
        cells = " ".join(f"{name.replace(' ', '_')}={_word(value)}" for name, value in row.items() if value)
        yield f"{title}: {cells}" if title else cells


def _word(value: str) -> str:
    return value if len(value.split()) == 1 else json.dumps(value, ensure_ascii=False)
