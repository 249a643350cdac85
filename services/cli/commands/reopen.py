"""`tally reopen`: reopens a closed contest until a new end."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from libs.catalogue.contests.closing_record import closing_of
from libs.catalogue.contests.reopening import Reopener
from libs.catalogue.errors import NotClosed
from libs.contracts.validation import ValidationFailed
from libs.deployment.deployment import Deployment
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import ContestKey, Execute, command, moment
from services.cli.contest_lookup import named, read_titles
from services.cli.render import Block


@dataclass(frozen=True, slots=True)
class Reopened:
    """A contest, closed at `closed_at`, and its new end."""

    contest_key: str
    title: str
    closed_at: str | None
    end: str | None
    executed: bool


def _text(result: Reopened) -> Iterator[Block]:
    yield f"Contest {named(result.contest_key, result.title)}: closed since {result.closed_at or '-'}."
    if result.executed:
        yield f"Reopened until {result.end}."
    else:
        yield f"Run again with --execute to reopen it until {result.end}."


@command(text=_text)
async def reopen(
    deployment: Deployment,
    contest: ContestKey,
    end: Annotated[str, typer.Option("--end", help="New end, like 2026-05-01T18:00:00Z.")],
    execute: Execute = False,
) -> Reopened:
    """Reopen a closed contest until a new end; late votes stay uncounted."""
    until = moment(end, "--end")
    account = await deployment.catalogue.owner_of(contest)
    records = await deployment.catalogue.record_service()
    reopener = Reopener(records, deployment.vote_views, deployment.votes)
    try:
        before = (await reopener.check(account, contest, until)).document
    except ValidationFailed as error:
        raise typer.BadParameter(error.message, param_hint="--end") from None
    except NotClosed:
        title = (await read_titles(deployment, contest)).title
        now = (await deployment.catalogue.contest_record(contest))[1].document.get("contest_config", {}).get("end")
        raise NotClosed(
            f"Contest {named(contest, title)} is not closed; it ends at {now or 'no set time'}. To change that, "
            f'send PATCH /contests/{contest} with {{"contest_config": {{"end": "{timestamp(until)}"}}}}.'
        ) from None
    if execute:
        await reopener.reopen(account, contest, until)
    closing = closing_of(before)
    closed_at = None if closing is None else timestamp(closing.end)
    return Reopened(contest, before.get("title") or "", closed_at, timestamp(until), execute)
