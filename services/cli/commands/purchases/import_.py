"""`tally purchases import`: records purchases from a file with one JSON object per line."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from libs.contracts.validation import Problem, ValidationFailed
from libs.deployment.deployment import Deployment
from libs.purchases.requests import PurchaseForm, parse_purchase
from libs.purchases.service import PurchaseService, Recorded
from libs.tally.errors import IdempotencyKeyReused, TallyError
from libs.telemetry.progress import Progress
from libs.web.errors import MalformedJson
from libs.web.request_parsing import parse_object
from services.cli.command_decorator import Execute, command
from services.cli.commands.purchases.context import Account, find_account, purchase_service
from services.cli.operator_actions import record_action
from services.cli.render import Block

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


@dataclass(frozen=True, slots=True)
class BadLine:
    """An invalid line, with its errors as in the API."""

    line: int
    errors: list[dict[str, Any]]


@dataclass(slots=True)
class Result:
    """Outcomes of the lines; `bad` lists the first thousand of `bad_count`."""

    executed: bool
    good: int = 0
    recorded: int = 0
    replayed: int = 0
    bad_count: int = 0
    bad: list[BadLine] = field(default_factory=list)

    def refuse(self, line: int, error: ValidationFailed) -> None:
        self.bad_count += 1
        if len(self.bad) < MOST_NAMED:
            self.bad.append(BadLine(line, error.data["errors"]))


def _text(result: Result) -> Iterator[Block]:
    for bad in result.bad[:MOST_SHOWN]:
        what = "; ".join(f"{one['pointer']}: {one['message']}".removeprefix(": ") for one in bad.errors)
        yield f"line {bad.line}: {what}"
    if result.bad_count > MOST_SHOWN:
        yield f"... and {result.bad_count - MOST_SHOWN:,} more invalid lines (the first thousand with --json)."
    if result.executed:
        yield f"Recorded {result.recorded:,} purchases or states; {result.replayed:,} were recorded before."
    else:
        yield f"{result.good:,} purchases can be recorded: run again with --execute."
    if result.bad_count:
        yield f"{result.bad_count:,} lines are invalid."


@command(text=_text, is_fine=lambda result: not result.bad_count)
async def import_purchases(
    deployment: Deployment,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True, help="NDJSON file.")],
    account: Account = None,
    execute: Execute = False,
) -> Result:
    """Record the purchases in a file, one JSON object per line as for POST /operations/purchases.

    Valid lines are recorded, invalid ones listed. It may be run again: no purchase is recorded twice. Later lines
    of the same purchase are later states of its subscription, unless their reported_at says otherwise; without one
    they are recorded again, in the same order.
    """
    progress, size = deployment.progress, file.stat().st_size
    if not execute:
        progress.begin("Checking", size)
        return check_all(file, progress)
    owner = await find_account(deployment, account)
    await record_action(deployment, "purchases imported", account=owner, file=file.name)
    service = await purchase_service(deployment)
    progress.begin("Recording", size)
    return await record_all(file, service, owner, progress)


def check_all(file: Path, progress: Progress) -> Result:
    result = Result(executed=False)
    for line in read(file):
        if isinstance(line.content, ValidationFailed):
            result.refuse(line.number, line.content)
        else:
            result.good += 1
        progress.advance(line.size)
    return result


async def record_all(file: Path, service: PurchaseService, account: str, progress: Progress) -> Result:
    """Record all valid lines. Raises as `PurchaseService.record` while a server stays unavailable."""
    result = Result(executed=True)

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

    async def take_in_order(lines: list[Line]) -> None:
        for line in lines:
            await take(line)

    lines = read(file)
    while batch := list(islice(lines, AT_ONCE)):
        await asyncio.gather(*map(take_in_order, _by_purchase(batch)))
    result.bad.sort(key=lambda bad: bad.line)
    return result


def _by_purchase(batch: list[Line]) -> list[list[Line]]:
    """Group the lines by purchase: the states of one are recorded in their order."""
    groups: dict[str | int, list[Line]] = {}
    for line in batch:
        name = line.number if isinstance(line.content, ValidationFailed) else line.content.purchase_token
        groups.setdefault(name, []).append(line)
    return list(groups.values())


def read(file: Path) -> Iterator[Line]:
    """Yield the file's lines, except for blank ones."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield Line(number, len(line), _parse(line))


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
