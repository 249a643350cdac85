"""`tally reopen`: reopens a closed contest until a new end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, NamedTuple

import typer

from libs.catalogue.contests.closing import closing_of
from libs.catalogue.contests.reopening import Reopener
from libs.catalogue.record_service import RecordService
from libs.catalogue.resources import RESOURCES
from libs.catalogue.writer import CatalogueWriter
from libs.contracts.catalogue import Stored
from libs.contracts.topics import catalogue_topic
from libs.contracts.validation import ValidationFailed
from libs.deployment.deployment import Deployment, open_log
from libs.tally.errors import AppendUnknown
from libs.tally.time import timestamp
from libs.views.catalogue import CatalogueViews
from libs.views.functions import open_valkey
from libs.views.votes import VoteViews
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.runner import AsJson, DataDir, ExitCode, moment, print_json, run


class ReopenContext(NamedTuple):
    """Reopener, and the account that owns the contest."""

    reopener: Reopener
    account: str


def reopen(
    contest: Annotated[str, typer.Argument(help="Key of the contest.")],
    end: Annotated[str, typer.Option("--end", help="New end, like 2026-05-01T18:00:00Z.")],
    execute: Annotated[bool, typer.Option("--execute", help="Execute it; default: only show the effect.")] = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Reopen a closed contest until a new end; late votes stay uncounted."""

    async def work() -> ExitCode:
        until = moment(end, "--end")
        async with open_reopen_context(find_deployment(data_dir), contest) as context:
            try:
                before = await context.reopener.check(context.account, contest, until)
            except ValidationFailed as error:
                raise typer.BadParameter(error.message, param_hint="--end") from None
            if execute:
                await context.reopener.reopen(context.account, contest, until)
        _show(before, until, execute, as_json)
        return ExitCode.FINE

    run(work())


@asynccontextmanager
async def open_reopen_context(stack: Deployment, contest: str) -> AsyncIterator[ReopenContext]:
    """Connect to the servers. Raises `BadParameter` for an unknown contest."""
    valkey = open_valkey(stack.valkey)
    try:
        views, topic = CatalogueViews(valkey, stack.namespace), catalogue_topic(stack.namespace)
        account = await views.find_owner("contests", contest)
        if account is None:
            raise typer.BadParameter(f"There is no contest {contest}.", param_hint="CONTEST")
        async with open_log(stack) as log:
            record_service = RecordService(RESOURCES, views, CatalogueWriter(topic, log, views, AppendUnknown))
            yield ReopenContext(
                Reopener(record_service, VoteViews(valkey, stack.namespace), stack.partitions), account
            )
    finally:
        await valkey.close()


def _show(before: Stored, until: int, executed: bool, as_json: bool) -> None:
    document = before.document
    closing = closing_of(document)
    ended = None if closing is None else timestamp(closing.end)
    if as_json:
        print_json({"contest_key": before.key, "closed_at": ended, "end": timestamp(until), "executed": executed})
        return
    typer.echo(f"{document.get('title') or before.key}: closed since {ended or '-'}.")
    if executed:
        typer.echo(f"Reopened until {timestamp(until)}.")
    else:
        typer.echo(f"Run again with --execute to reopen it until {timestamp(until)}.")
