"""`tally contests`: lists the contests with keys, titles, phases and counts, and restores deleted ones."""

import time
from typing import Annotated, Any

import typer

from libs.catalogue.contests.closing_record import is_sealed
from libs.catalogue.contests.contest_mapper import contest_of, sources_of
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.deployment.deployment import Deployment
from libs.results.contest_counts import counts_by_partition, sum_of
from libs.results.contest_results import results_of
from libs.tally.contest import Contest
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import Execute, command, command_group
from services.cli.contest_lookup import all_contests, named
from services.cli.operator_actions import AuditedGroup
from services.cli.output import Result
from services.cli.render import Rows, plural


class ListGroup(AuditedGroup):
    """Runs `tally contests` as `tally contests list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named else ["list", *args])


app = command_group("List contests, and restore deleted ones; `list` may be omitted.", ListGroup)


@command(app, "list")
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


@command(app)
async def deleted(
    deployment: Deployment,
    account: Annotated[str | None, typer.Option("--account", help="Only this account.")] = None,
) -> Result:
    """List the deleted contests with the votes that their log holds."""
    found = [
        await _deleted(deployment, owner, stored)
        async for owner, stored in all_contests(deployment.catalogue, deleted=True)
        if account in (None, owner)
    ]
    return Result({"contests": found}, [Rows(found, fit=True), f"{plural(len(found), 'deleted contest')}."])


@command(app)
async def restore(
    deployment: Deployment,
    contest: Annotated[str, typer.Argument(metavar="KEY", help="Key, from `tally contests deleted`.")],
    execute: Execute = False,
) -> Result:
    """Restore a deleted contest with its participants, sources and votes."""
    account, stored = await deployment.catalogue.deleted_contest(contest)
    about = await _deleted(deployment, account, stored)
    if execute:
        await deployment.catalogue.restore(account, contest)
    text = [
        f"Contest {named(contest, about['title'])} of account {account}, deleted {about['deleted']}: "
        f"{plural(about['votes'], 'vote')} of {plural(about['voters'], 'voter')}.",
        "Restored." if execute else "Run again with --execute to restore it.",
    ]
    return Result(about | {"executed": execute}, text)


async def _deleted(deployment: Deployment, account: str, stored: Stored) -> dict[str, Any]:
    """Return a deleted contest with all counted votes, also of participants that are not approved."""
    contest = contest_of(account, ContestRecords(stored.version, stored, ()))
    assert contest is not None, "it has a record and a version"
    sums = sum_of(await counts_by_partition(deployment.vote_views, deployment.votes, contest)).at("", "")
    return {
        "title": stored.document.get("title") or "",
        "key": stored.key,
        "votes": sums.count,
        "voters": sums.unique,
        "deleted": timestamp(stored.updated),
        "account": account,
    }
