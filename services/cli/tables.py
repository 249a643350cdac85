"""Rows of named cells: a table on a terminal, lines elsewhere."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table

Cells = Mapping[str, str]
UNBOUNDED = 1_000


def printable(text: str) -> str:
    """What others wrote, fit for a terminal: control characters, which may steer it, are written out."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def plain_console() -> Console:
    """Prints what it is given, and nothing else."""
    return Console(highlight=False, soft_wrap=True, markup=False, emoji=False)


def table_of(rows: Sequence[Cells], *, left: Collection[str] = (), title: str | None = None) -> Table:
    """`left` names the columns of text; the others are of numbers. All rows have the same columns."""
    table = Table(box=None, header_style="dim", padding=(0, 1, 0, 0), title=title, title_justify="left")
    for name in rows[0]:
        table.add_column(name, justify="left" if name in left else "right")
    for row in rows:
        table.add_row(*row.values())
    return table


def fitted(console: Console, table: Table) -> Table:
    """Without the last columns that have no room; all of them are in --json."""
    options = console.options.update(width=UNBOUNDED)
    while console.measure(table, options=options).maximum > console.width:
        table.columns.pop()
    return table


def lines_of(rows: Sequence[Cells], title: str = "") -> Iterator[str]:
    """Empty cells are left out, several words are quoted."""
    for row in rows:
        cells = " ".join(f"{name.replace(' ', '_')}={_word(value)}" for name, value in row.items() if value)
        yield f"{title}: {cells}" if title else cells


def _word(value: str) -> str:
    return value if len(value.split()) == 1 else json.dumps(value, ensure_ascii=False)
