"""Runs one benchmark by itself and prints its table."""

import asyncio
import resource
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeAlias, cast

import typer
import uvloop
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.benchmarks.measurement import Measurement, Scale, Size
from tests.benchmarks.results import dump_measurements
from tests.benchmarks.rows import HEAD, rows_of

Measure: TypeAlias = Callable[[Scale], Awaitable[list[Measurement]]]


def alone(title: str, measure: Measure) -> None:
    """Measure in the size that the command line names, then print the table or write JSON."""

    def main(
        rounds: Annotated[int | None, typer.Argument(help="Rounds, taken in turn by all parties.")] = None,
        size: Annotated[Size, typer.Option(help="Amount of work.")] = Size.FULL,
        json: Annotated[Path | None, typer.Option(help="File for the figures, instead of a table.")] = None,
    ) -> None:
        finish(title, run(measure, Scale.of(size, rounds)), json)

    typer.run(main)


def finish(title: str, measurements: list[Measurement], json: Path | None) -> None:
    """Write the figures to the file, or print them without one."""
    if json:
        json.write_bytes(dump_measurements(measurements))
    else:
        show(title, measurements)


def run(measure: Measure, scale: Scale) -> list[Measurement]:
    """Measure, with as many open files as the system allows; SIGTERM ends the servers, too."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    async def measured() -> list[Measurement]:
        ending = cast("asyncio.Task[object]", asyncio.current_task())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.cancel)
        return await measure(scale)

    return uvloop.run(measured())


def show(title: str, measurements: list[Measurement]) -> None:
    """Print a table; on a narrow terminal, or none, its lines are as long as they must be."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in HEAD.cells:
        table.add_column(name, overflow="fold")
    for measurement in measurements:
        for row in rows_of(measurement):
            table.add_row(*(escape(cell.replace("**", "")) for cell in row.cells))
    console = Console()
    Console(width=max(console.width, 190)).print(table)
