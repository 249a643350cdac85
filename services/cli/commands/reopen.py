"""`tally reopen`: reopens a closed contest until a new end."""

from typing import Annotated, Any

from typer import BadParameter, Option

from libs.audit.recount import read_ballots
from libs.catalogue.contests.closing_record import closing_of, status_of
from libs.catalogue.contests.reopening import Reopener, reopened
from libs.catalogue.errors import NotClosed
from libs.contracts.validation import ValidationFailed
from libs.deployment.deployment import Deployment
from libs.results.contest_results import places_in
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import ContestKey, Execute, command, moment, read_titles
from services.cli.output import Block, Result, Rows, cell


@command()
async def reopen(
    deployment: Deployment,
    contest: ContestKey,
    end: Annotated[str, Option(help="New end, like 2026-05-01T18:00:00Z.")],
    execute: Execute = False,
) -> Result:
    """Reopen a closed contest until a new end; late votes stay uncounted.

    Shows the result before and after: what was changed since the end, such as a disqualification, takes effect.
    """
    until = moment(end, "--end")
    account = await deployment.catalogue.owner_of(contest)
    records, titles = await deployment.catalogue.record_service(), await read_titles(deployment, contest)
    reopener = Reopener(records, deployment.vote_views, deployment.votes)
    try:
        before = (await reopener.check(account, contest, until)).document
    except ValidationFailed as error:
        raise BadParameter(error.message, param_hint="--end") from None
    except NotClosed:
        now = (await deployment.catalogue.contest_record(contest))[1].document.get("contest_config", {}).get("end")
        raise NotClosed(
            f"Contest {titles} is not closed; it ends at {now or 'no set time'}. To change that, "
            f'send PATCH /contests/{contest} with {{"contest_config": {{"end": "{timestamp(until)}"}}}}.'
        ) from None
    effects = await _effects(deployment, contest, before, until)
    if execute:
        await reopener.reopen(account, contest, until)
    closing, new_end = closing_of(before), timestamp(until)
    closed_at = None if closing is None else timestamp(closing.end)
    members = {"contest_key": contest, "title": titles.title, "closed_at": closed_at, "end": new_end}
    text: list[Block] = [
        Rows([{name: _arrow(value) for name, value in row.items()} for row in effects]),
        f"Contest {titles}: closed since {closed_at or '-'}.",
    ]
    done, to = f"Reopened until {new_end}.", f"reopen it until {new_end}"
    return Result.change(members | {"participants": effects}, text, execute, done, to)


async def _effects(
    deployment: Deployment, contest: str, document: dict[str, Any], until: int
) -> list[dict[str, object]]:
    """Return each participant's status, votes and rank, as pairs before and after the reopening."""
    closed = await read_ballots(deployment, contest)
    reopening, closing = closed.reopened(reopened(document, until)), closing_of(document)
    records = [record["participants"] for record in (await closed.served(deployment), reopening.record())]
    votes = [{key: entry["count"] for key, entry in record.items()} for record in records]
    ranks = [places_in(record) for record in records]
    statuses = {} if closing is None else {each.key: each.status for each in closing.participants}

    return [
        {
            "participant": stored.key,
            "title": stored.document.get("title") or "",
            "status": (statuses.get(stored.key), status_of(stored)),
            "votes": tuple(found.get(stored.key) for found in votes),
            "rank": tuple(found.get(stored.key) for found in ranks),
        }
        for stored in closed.config.participants
    ]


def _arrow(value: object) -> str:
    if not isinstance(value, tuple):
        return cell(value)
    before, after = (cell(each) or "-" for each in value)
    return before if before == after else f"{before} -> {after}"
