"""`tally reopen`: reopens a closed contest until a new end."""

from typing import Annotated

import typer

from libs.catalogue.contests.closing_record import closing_of
from libs.catalogue.contests.reopening import Reopener
from libs.catalogue.errors import NotClosed
from libs.contracts.validation import ValidationFailed
from libs.deployment.deployment import Deployment
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import ContestKey, Execute, command, moment
from services.cli.contest_lookup import read_titles
from services.cli.output import Result


@command()
async def reopen(
    deployment: Deployment,
    contest: ContestKey,
    end: Annotated[str, typer.Option("--end", help="New end, like 2026-05-01T18:00:00Z.")],
    execute: Execute = False,
) -> Result:
    """Reopen a closed contest until a new end; late votes stay uncounted."""
    until = moment(end, "--end")
    account = await deployment.catalogue.owner_of(contest)
    records, titles = await deployment.catalogue.record_service(), await read_titles(deployment, contest)
    reopener = Reopener(records, deployment.vote_views, deployment.votes)
    try:
        before = (await reopener.check(account, contest, until)).document
    except ValidationFailed as error:
        raise typer.BadParameter(error.message, param_hint="--end") from None
    except NotClosed:
        now = (await deployment.catalogue.contest_record(contest))[1].document.get("contest_config", {}).get("end")
        raise NotClosed(
            f"Contest {titles} is not closed; it ends at {now or 'no set time'}. To change that, "
            f'send PATCH /contests/{contest} with {{"contest_config": {{"end": "{timestamp(until)}"}}}}.'
        ) from None
    if execute:
        await reopener.reopen(account, contest, until)
    closing, new_end = closing_of(before), timestamp(until)
    closed_at = None if closing is None else timestamp(closing.end)
    return Result(
        {
            "contest_key": contest, "title": titles.title, "closed_at": closed_at, "end": new_end,
            "executed": execute,
        },
        [
            f"Contest {titles}: closed since {closed_at or '-'}.",
            f"Reopened until {new_end}." if execute
            else f"Run again with --execute to reopen it until {new_end}.",
        ],
    )  # fmt: skip
