"""`tally status`: positions, lag and gates, partition by partition."""

from rich.console import Console
from rich.table import Table

from libs.contracts.topics import catalogue_topic
from services.operations.connect import DATA_DIR, find_stack
from services.operations.running import AsJson, DataDir, Ending, print_json, run
from services.operations.standing import Status, read_status


def status(data_dir: DataDir = DATA_DIR, as_json: AsJson = False) -> None:
    """Positions, lag, gates and what was set aside, partition by partition, and whether the parts live."""

    async def work() -> Ending:
        found = await read_status(find_stack(data_dir))
        if as_json:
            print_json(found.as_json())
        else:
            show(found)
        return Ending.FINE if all(part.alive for part in found.parts) else Ending.PROBLEM

    run(work())


def show(found: Status) -> None:
    """A table on a terminal, a line a partition elsewhere."""
    console = Console(highlight=False, soft_wrap=True)
    for table in (_votes_table(found), _catalogue_table(found), _parts_table(found)):
        if console.is_terminal and table.row_count:
            _leave_out_what_has_no_room(console, table)
            console.print(table, soft_wrap=False)
        elif table.row_count:
            _print_plainly(console, table)


def _votes_table(found: Status) -> Table:
    table = _table("Votes", "part position end lag gate pend oldest fenced dup over quar incarnation")
    for row in found.votes:
        oldest = "-" if row.oldest_pending_s is None else f"{row.oldest_pending_s:.1f}s"
        where = row.partition, row.position, row.end, row.lag, "open" if row.open else "shut", row.pending, oldest
        table.add_row(
            *map(str, (*where, row.fenced, row.duplicates, row.overruled, row.quarantined)), str(row.incarnation)
        )
    totals = found.as_json()["totals"]
    settled = (totals[name] for name in ("fenced", "duplicates", "overruled", "quarantined"))
    gates = f"{totals['shut']} shut" if totals["shut"] else "open"
    table.add_section()
    table.add_row("all", "", "", str(totals["lag"]), gates, str(totals["pending"]), "", *map(str, settled), "")
    return table


def _catalogue_table(found: Status) -> Table:
    table = _table("Catalogue", "topic part position end lag")
    for at in found.catalogue:
        table.add_row(catalogue_topic(at.namespace).name, *map(str, (at.partition, at.position, at.end, at.lag)))
    return table


def _parts_table(found: Status) -> Table:
    table = _table("Parts", "name pid state")
    for part in found.parts:
        table.add_row(part.name, str(part.pid), "alive" if part.alive else "dead")
    return table


def _leave_out_what_has_no_room(console: Console, table: Table) -> None:
    """The last columns go first; all of them are in --json."""
    unbounded = console.options.update(width=1_000)
    while console.measure(table, options=unbounded).maximum > console.width:
        table.columns.pop()


def _table(title: str, columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, header_style="dim", padding=(0, 1, 0, 0))
    for column in columns.split():
        table.add_column(column, justify="left" if column in ("topic", "name", "gate", "state") else "right")
    return table


def _print_plainly(console: Console, table: Table) -> None:
    names = [str(column.header) for column in table.columns]
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        values = " ".join(f"{name}={value}" for name, value in zip(names, cells, strict=True) if value)
        console.out(f"{str(table.title).lower()}: {values}")
