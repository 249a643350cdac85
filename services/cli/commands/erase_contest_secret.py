"""`tally erase-contest-secret`: makes a sealed contest's votes permanently anonymous."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, NamedTuple

import typer

from libs.catalogue.contests.closing import erased
from libs.catalogue.record_service import RecordService
from libs.catalogue.resource import Document
from libs.catalogue.resources import CONTESTS, RESOURCES
from libs.deployment.deployment import Deployment, check_deployment_of
from libs.storage.secrets import erase_contest_secret
from libs.storage.store import open_store
from libs.tally.time import timestamp
from services.cli.catalogue_access import open_catalogue_access
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run

CONSEQUENCES = """\
- Votes and allowances can no longer be read or removed by voter: such requests get 410.
- Votes can no longer be attributed to purchases; bought votes count even if refunded.
- The contest can never be reopened.
Its counts, seal and receipts stay. Backups and exports of the object store still contain the secret."""


class EraseContext(NamedTuple):
    """Record service, and the account that owns the contest."""

    record_service: RecordService
    account: str


def erase_secret(
    contest: Annotated[str, typer.Argument(help="Key of the contest.")],
    execute: Annotated[bool, typer.Option("--execute", help="Execute it; default: only show the effect.")] = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Destroy the secret that links a sealed contest's votes to its voters; the counts stay."""

    async def work() -> ExitCode:
        stack = find_deployment(data_dir)
        async with open_erase_context(stack, contest) as context:
            before = (await context.record_service.get(CONTESTS, context.account, contest)).document
            change = partial(erased, now=time.time_ns() // 1000)
            after = change(before)
            if execute:
                # The record first: it prevents reopening, and a repeated call completes an interrupted one.
                written = await context.record_service.amend(CONTESTS, context.account, contest, change)
                after = written.stored.document
                await erase_contest_secret(open_store(stack.storage_url), contest)
        _show(contest, before, after, execute, as_json)
        return ExitCode.FINE

    run(work())


@asynccontextmanager
async def open_erase_context(stack: Deployment, contest: str) -> AsyncIterator[EraseContext]:
    """Connect to the servers. Raises `BadParameter` for an unknown contest."""
    await check_deployment_of(stack)
    async with open_catalogue_access(stack.kafka_settings, stack.valkey, stack.namespace) as access:
        account = await access.views.find_owner("contests", contest)
        if account is None:
            raise typer.BadParameter(f"There is no contest {contest}.", param_hint="CONTEST")
        yield EraseContext(RecordService(RESOURCES, access.views, access.writer), account)


def _show(contest: str, before: Document, after: Document, executed: bool, as_json: bool) -> None:
    known = (after if executed else before).get("secret_erased")
    if as_json:
        print_json({"contest_key": contest, "erased_at": timestamp(known), "executed": executed})
        return
    title = before.get("title") or contest
    if executed:
        typer.echo(f"{title}: the secret is destroyed.")
    elif known is not None:
        typer.echo(f"{title}: the secret was destroyed at {timestamp(known)}; --execute repeats it to be sure.")
    else:
        typer.echo(f"{title} is sealed. Permanent effects of destroying its secret:\n{CONSEQUENCES}")
        typer.echo("Run again with --execute to destroy it.")
