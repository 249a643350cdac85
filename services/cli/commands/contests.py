"""Lists, restores and counts contests, and destroys the secrets of sealed ones."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Final

from typer import Argument, Option

from libs.audit.recount import HistoricalCount, count_at
from libs.catalogue.contests.contest_mapper import contest_of, sources_of
from libs.catalogue.contests.seals import erased, is_sealed
from libs.catalogue.resource_table import CONTESTS
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.deployment.deployment import Deployment
from libs.results.contest_counts import read_counts
from libs.results.contest_results import places_in, results_of
from libs.storage.secrets import erase_contest_secret
from libs.tally.contest import Contest
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import ContestKey, Execute, all_contests, command, command_group, moment, named
from services.cli.output import Block, Result, Rows, plural

CONSEQUENCES: Final = """\
- Votes and allowances can no longer be read or removed by voter: such requests get 410.
- Votes can no longer be attributed to purchases; bought votes count even if refunded.
- The contest can never be reopened.
Its counts, seal and receipts stay. Backups and exports of the object store still contain the secret."""

app = command_group(
    "List contests, and restore deleted ones; `list` may be omitted.", "list", no_args_is_help=False
)


@command(app, "list")
async def contests(
    deployment: Deployment,
    account: Annotated[str | None, Option(help="Only this account.")] = None,
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
    counts = await read_counts(views, deployment.votes, contest)
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
    account: Annotated[str | None, Option(help="Only this account.")] = None,
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
    contest: Annotated[str, Argument(metavar="KEY", help="Key, from `tally contests deleted`.")],
    execute: Execute = False,
) -> Result:
    """Restore a deleted contest with its participants, sources and votes."""
    account, stored = await deployment.catalogue.deleted_contest(contest)
    about = await _deleted(deployment, account, stored)
    if execute:
        await deployment.catalogue.restore(account, contest)
    text = (
        f"Contest {named(contest, about['title'])} of account {account}, deleted {about['deleted']}: "
        f"{plural(about['votes'], 'vote')} of {plural(about['voters'], 'voter')}."
    )
    return Result.change(about, [text], execute, "Restored.", "restore it")


async def _deleted(deployment: Deployment, account: str, stored: Stored) -> dict[str, Any]:
    """Return a deleted contest with all counted votes, also of participants that are not approved."""
    contest = contest_of(account, ContestRecords(stored.version, stored, ()))
    assert contest is not None, "it has a record and a version"
    sums = (await read_counts(deployment.vote_views, deployment.votes, contest)).at("", "")
    return {
        "title": stored.document.get("title") or "",
        "key": stored.key,
        "votes": sums.count,
        "voters": sums.unique,
        "deleted": timestamp(stored.updated),
        "account": account,
    }


@command()
async def count(
    deployment: Deployment,
    contest: ContestKey,
    at: Annotated[str | None, Option(help="Time of the counts, like 2026-05-01T18:00:00Z; default: now.")] = None,
    sources: Annotated[bool, Option("--sources", help="Add counts by vote source.")] = False,
) -> Result:
    """Count a contest as of a given time, from all records appended to the log until then.

    Participants, titles and mappings of sources' ids are the current ones, for a closed contest those of its
    closing. Before the contest all counts are zero; a time in the future means now.
    """
    now = time.time_ns() // 1000
    when = now if at is None else moment(at, "--at")
    counted = await count_at(deployment, contest, when, now, sources=sources)
    return Result(counted, _count_text(counted))


def _count_text(counted: HistoricalCount) -> Iterator[Block]:
    """Yield the participants in the order of rank, then the contest."""
    yield f"Contest {named(counted.record['contest_key'], counted.title)}"
    yield Rows(_rows(counted))
    record = counted.record
    for source in record.get("total_vote_sources", ()):
        totals = "in total" if source["is_in_total"] else "not in total"
        yield f"Source {source['source']} ({source['title']}): {plural(source['count'], 'vote')}, {totals}."
    yield (
        f"{plural(record['count'], 'vote')} of {plural(record['unique_voter_count'], 'voter')}, "
        f"of which {record['anonymous_voter_count']:,} anonymous, as of {counted.at}. "
        "Voters are counted even if they voted only for rejected participants."
    )
    offsets = " ".join(f"{partition}:{at.offset}" for partition, at in sorted(counted.positions.items()))
    yield f"Last event included: {counted.last_event or '-'}. Positions: {offsets}"


def _rows(counted: HistoricalCount) -> list[dict[str, object]]:
    record = counted.record
    participants: dict[str, dict[str, Any]] = record["participants"]
    ranks = places_in(participants)
    return [
        {
            "rank": ranks[key],
            "participant": key,
            "title": counted.titles.get(key, ""),
            "votes": entry["count"],
            "share": f"{entry['count'] / max(1, record['count']):.1%}",
            "voters": entry["unique_voter_count"],
            "anonymous": entry["anonymous_voter_count"],
            **({"average": _average(entry["rating"]["average"])} if "rating" in entry else {}),
            **_by_source(entry, [source["source"] for source in record.get("total_vote_sources", ())]),
        }
        for key, entry in sorted(participants.items(), key=lambda item: ranks[item[0]])
    ]


def _average(average: float | None) -> str:
    return "-" if average is None else str(average)


def _by_source(entry: dict[str, Any], sources: list[str]) -> dict[str, int]:
    """Sum the participant's votes by source; an external source has an entry for each of its mapped ids."""
    given = entry.get("vote_sources", ())
    return {name: sum(one["count"] for one in given if one["source"] == name) for name in sources}


@command()
async def erase_secret(deployment: Deployment, contest: ContestKey, execute: Execute = False) -> Result:
    """Destroy the secret that links a sealed contest's votes to its voters; the counts stay."""
    account = await deployment.catalogue.owner_of(contest)
    records = await deployment.catalogue.record_service()
    document = (await records.get(CONTESTS, account, contest)).document
    change = partial(erased, now=time.time_ns() // 1000)
    change(document)
    earlier = timestamp(document.get("secret_erased"))
    if execute:
        # The record first: it prevents reopening, and a repeated call completes an interrupted one.
        document = (await records.amend(CONTESTS, account, contest, change)).stored.document
        await erase_contest_secret(deployment.store, contest)
    title, erased_at = document.get("title") or "", timestamp(document.get("secret_erased"))
    name, to = named(contest, title), "destroy it"
    text = [f"{name} is sealed. Permanent effects of destroying its secret:", CONSEQUENCES]
    if earlier is not None:
        text, to = [f"{name}: the secret was destroyed at {earlier}."], "destroy it again, to be sure"
    members = {"contest_key": contest, "title": title, "erased_at": erased_at}
    return Result.change(members, text, execute, "The secret is destroyed.", to)
