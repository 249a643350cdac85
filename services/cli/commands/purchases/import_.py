"""`tally purchases import`: records purchases from a file with one JSON object per line."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from libs.contracts.validation import Problem, ValidationFailed
from libs.purchases.requests import PurchaseForm, parse_purchase
from libs.purchases.service import PurchaseService, Recorded
from libs.tally.errors import IdempotencyKeyReused, TallyError
from libs.telemetry.progress import Progress
from libs.web.errors import MalformedJson
from libs.web.requests import parse_object
from services.cli.commands.purchases.context import Account, find_account, open_purchase_service
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.operator import record_action
from services.cli.progress import ProgressBar
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run

AT_ONCE = 200
ATTEMPTS = 5
"""Attempts per purchase while a server is unavailable; then the import ends, and can be run again."""
MOST_NAMED = 1_000
MOST_SHOWN = 30


class Line(NamedTuple):
    """A line of the file: its number from 1, its size in bytes, and its purchase or its errors."""

    number: int
    size: int
    content: PurchaseForm | ValidationFailed


@dataclass
class Result:
    """Outcomes of the lines; `bad` lists the first thousand of `bad_count`."""

    good: int = 0
    recorded: int = 0
    replayed: int = 0
    bad_count: int = 0
    bad: list[dict[str, Any]] = field(default_factory=list)

    def refuse(self, line: int, error: ValidationFailed) -> None:
        self.bad_count += 1
        if len(self.bad) < MOST_NAMED:
            self.bad.append({"line": line, "errors": error.data["errors"]})


def import_purchases(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="NDJSON file.")],
    account: Account = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Record the purchases; default: only check them.")
    ] = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Record the purchases in a file, one JSON object per line as for POST /operations/purchases.

    Valid lines are recorded, invalid ones listed. It may be run again: no purchase is recorded twice.
    """

    async def work() -> ExitCode:
        with ProgressBar("Recording" if execute else "Checking", enabled=not as_json) as progress:
            progress.begin(file.stat().st_size)
            if execute:
                stack = find_deployment(data_dir)
                owner = await find_account(stack, account)
                await record_action(stack, "purchases imported", account=owner, file=file.name)
                async with open_purchase_service(stack) as service:
                    result = await record_all(file, service, owner, progress)
            else:
                result = check_all(file, progress)
        if as_json:
            print_json({"executed": execute, **vars(result)})
        else:
            show(result, execute)
        return ExitCode.PROBLEM if result.bad_count else ExitCode.FINE

    run(work())


def check_all(file: Path, progress: Progress) -> Result:
    result = Result()
    for line in read(file):
        if isinstance(line.content, ValidationFailed):
            result.refuse(line.number, line.content)
        else:
            result.good += 1
        progress.advance(line.size)
    return result


async def record_all(file: Path, service: PurchaseService, account: str, progress: Progress) -> Result:
    """Record all valid lines. Raises as `PurchaseService.record` while a server stays unavailable."""
    result = Result()

    async def take(line: Line) -> None:
        try:
            if isinstance(line.content, ValidationFailed):
                raise line.content
            recorded = await _record(service, account, line.content)
        except ValidationFailed as error:
            result.refuse(line.number, error)
        else:
            result.good += 1
            result.recorded += not recorded.replayed
            result.replayed += recorded.replayed
        progress.advance(line.size)

    lines = read(file)
    while batch := list(islice(lines, AT_ONCE)):
        await asyncio.gather(*map(take, batch))
    result.bad.sort(key=lambda bad: bad["line"])
    return result


def read(file: Path) -> Iterator[Line]:
    """Yield the file's lines, except for blank ones."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield Line(number, len(line), _parse(line))


def show(result: Result, executed: bool) -> None:
    for bad in result.bad[:MOST_SHOWN]:
        what = "; ".join(f"{one['pointer']}: {one['message']}".removeprefix(": ") for one in bad["errors"])
        typer.echo(f"line {bad['line']}: {what}")
    if result.bad_count > MOST_SHOWN:
        typer.echo(
            f"... and {result.bad_count - MOST_SHOWN:,} more invalid lines (the first thousand with --json)."
        )
    if executed:
        typer.echo(f"Recorded {result.recorded:,} purchases; {result.replayed:,} were recorded before.")
    else:
        typer.echo(f"{result.good:,} purchases can be recorded: run again with --execute.")
    if result.bad_count:
        typer.echo(f"{result.bad_count:,} lines are invalid.")


def _parse(line: bytes) -> PurchaseForm | ValidationFailed:
    try:
        return parse_purchase(parse_object(line))
    except MalformedJson:
        return ValidationFailed([Problem("", "is not JSON")])
    except ValidationFailed as error:
        return error


async def _record(service: PurchaseService, account: str, form: PurchaseForm) -> Recorded:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await service.record(account, form)
        except IdempotencyKeyReused as error:
            raise ValidationFailed([Problem("/purchase_token", error.message)]) from error
        except TallyError as error:
            if error.retry_after_s is None or attempt == ATTEMPTS:
                raise
            await asyncio.sleep(error.retry_after_s)
    raise AssertionError("the last attempt returns or raises")
