"""`tally contests`: lists the contests with keys, titles, phases and counts."""

import time
from typing import Annotated

import typer

from libs.catalogue.contests.closing_record import is_sealed
from libs.catalogue.contests.contest_mapper import contest_of, sources_of
from libs.contracts.catalogue_events import ContestRecords
from libs.deployment.deployment import Deployment
from libs.results.contest_counts import counts_by_partition, sum_of
from libs.results.contest_results import results_of
from libs.tally.contest import Contest
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import command
from services.cli.contest_lookup import all_contests
from services.cli.output import Result
from services.cli.render import Rows, plural


@command()
async def contests(
    deployment: Deployment,
    account: Annotated[str | None, typer.Option("--account", help="Only this account.")] = None,
) -> Result:
    """List the contests of all accounts that have an API key, with keys, titles, phases and counts."""
    catalogue, found = deployment.catalogue, []
    async for owner, stored in all_contests(catalogue):
        if account in (None, owner):
            config = await catalogue.views.contest_config(owner, stored.key)
            contest = contest_of(owner, config)
            if contest is not None:
                found.append(await _listed(deployment, contest, config))
    names = "title", "key", "state", "votes", "voters", "end", "account"
    rows = [{name: row[name] for name in names} | {"state": _state(row)} for row in found]
    return Result({"contests": found}, [Rows(rows, fit=True), f"{plural(len(found), 'contest')}."])


async def _listed(deployment: Deployment, contest: Contest, config: ContestRecords) -> dict[str, object]:
    """Return a contest with its counts; `state`: its phase, or `sealed`."""
    views = deployment.vote_views
    counts = sum_of(await counts_by_partition(views, deployment.votes, contest))
    results = results_of(contest, sources_of(config), counts)
    document = {} if config.contest is None else config.contest.document
    total = results.totals[""]
    return {
        "key": contest.key,
        "title": document.get("title") or "",
        "account": contest.account,
        "state": "sealed" if is_sealed(document) else contest.phase(time.time_ns() // 1000).value,
        "final": results.final,
        "end": timestamp(contest.end),
        "votes": total.count,
        "voters": total.unique,
    }


def _state(contest: dict[str, object]) -> object:
    return "final" if contest["final"] and contest["state"] == "finished" else contest["state"]
