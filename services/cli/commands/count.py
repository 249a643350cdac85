"""`tally count`: computes the exact counts of a contest as of any time."""

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from libs.audit.recount import HistoricalCount, count_at
from libs.deployment.deployment import Deployment
from libs.results.contest_results import entry_rank_key, places
from services.cli.command_decorator import ContestKey, command, moment
from services.cli.contest_lookup import named
from services.cli.output import Result
from services.cli.render import Block, Rows, plural


def _text(counted: HistoricalCount) -> Iterator[Block]:
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


@command()
async def count(
    deployment: Deployment,
    contest: ContestKey,
    at: Annotated[
        str | None, typer.Option("--at", help="Time of the counts, like 2026-05-01T18:00:00Z; default: now.")
    ] = None,
    sources: Annotated[bool, typer.Option("--sources", help="Add counts by vote source.")] = False,
) -> Result:
    """Count a contest as of a given time, from all records appended to the log until then.

    Participants, titles and mappings of sources' ids are the current ones, for a closed contest those of its
    closing. Before the contest all counts are zero; a time in the future means now.
    """
    now = time.time_ns() // 1000
    when = now if at is None else moment(at, "--at")
    counted = await count_at(deployment, contest, when, now, sources=sources)
    return Result(counted, _text(counted))


def _rows(counted: HistoricalCount) -> list[dict[str, object]]:
    record = counted.record
    participants: dict[str, dict[str, Any]] = record["participants"]
    ranks = places(map(entry_rank_key, participants.values()))
    return [
        {
            "rank": ranks[entry_rank_key(entry)],
            "participant": key,
            "title": counted.titles.get(key, ""),
            "votes": entry["count"],
            "share": f"{entry['count'] / max(1, record['count']):.1%}",
            "voters": entry["unique_voter_count"],
            "anonymous": entry["anonymous_voter_count"],
            **({"average": str(entry["rating"]["average"] or "-")} if "rating" in entry else {}),
            **_by_source(entry, [source["source"] for source in record.get("total_vote_sources", ())]),
        }
        for key, entry in sorted(participants.items(), key=lambda item: ranks[entry_rank_key(item[1])])
    ]


def _by_source(entry: dict[str, Any], sources: list[str]) -> dict[str, int]:
    """Sum the participant's votes by source; an external source has an entry for each of its mapped ids."""
    given = entry.get("vote_sources", ())
    return {name: sum(one["count"] for one in given if one["source"] == name) for name in sources}
