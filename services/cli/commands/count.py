"""`tally count`: computes the exact counts of a contest as of any time."""

import json
import time
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from libs.audit.generation_counts import count_in
from libs.audit.historical_counts import Counted, count_at
from libs.audit.log_fold import without_gc
from libs.results.results import places
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.progress import ProgressBar
from services.cli.runner import AsJson, DataDir, ExitCode, moment, print_json, run


def count(
    contest: Annotated[str, typer.Option("--contest", help="Key of the contest.")],
    at: Annotated[
        str | None, typer.Option("--at", help="Time of the counts, like 2026-05-01T18:00:00Z; default: now.")
    ] = None,
    sources: Annotated[bool, typer.Option("--sources", help="Add counts by vote source.")] = False,
    generation: Annotated[
        int | None,
        typer.Option(
            "--generation", help="Read the counts from this generation (copy of the views) that a replay built."
        ),
    ] = None,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Count a contest as of a given time, from all records appended to the log until then.

    Participants, titles and mappings of sources' ids are the current ones, for a closed contest those of its
    closing. Before the contest all counts are zero; a time in the future means now.
    """
    if None not in (at, generation):
        raise typer.BadParameter("A generation has no earlier counts: omit --at.", param_hint="--generation")

    async def work() -> ExitCode:
        now = time.time_ns() // 1000
        when = now if at is None else moment(at, "--at")
        stack = find_deployment(data_dir)
        with ProgressBar("Folding the log", enabled=not as_json) as progress, without_gc():
            if generation is None:
                counted = await count_at(stack, contest, when, now, sources=sources, progress=progress)
            else:
                counted = await count_in(stack, contest, generation, sources=sources)
        if as_json:
            print_json(counted.as_json())
        else:
            show(counted)
        return ExitCode.FINE

    run(work())


def show(counted: Counted) -> None:
    """Print a table on a terminal, otherwise one line per participant, in the order of votes."""
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    rows = _rows(counted)
    if console.is_terminal and rows:
        table = Table(*rows[0], box=None)
        for row in rows:
            table.add_row(*row.values())
        console.print(table, soft_wrap=False)
    else:
        for row in rows:
            console.out(" ".join(f"{name}={_quoted(value)}" for name, value in row.items()))
    record, result = counted.record, counted.as_json()
    for source in record.get("total_vote_sources", ()):
        totals = "in total" if source["is_in_total"] else "not in total"
        console.out(f"Source {source['source']} ({source['title']}): {source['count']:,} votes, {totals}.")
    console.out(
        f"{record['count']:,} votes of {record['unique_voter_count']:,} voters, "
        f"{record['anonymous_voter_count']:,} of them anonymous, as of {result['at']}. "
        "Voters are counted even if they voted only for rejected participants."
    )
    console.out(f"Last event included: {result['last_event'] or '-'}. Tally-Position: {result['position']}")
    for partition, position in result["positions"].items():
        if not console.is_terminal:
            console.out(f"partition {partition}: {position['log_id'] or '-'} {position['offset']}")


def _rows(counted: Counted) -> list[dict[str, str]]:
    record = counted.record
    participants: dict[str, dict[str, Any]] = record["participants"]
    titles = {stored.key: stored.document.get("title") or "" for stored in counted.config.participants}
    ranks = places(entry["count"] for entry in participants.values())
    return [
        {
            "rank": str(ranks[entry["count"]]),
            "participant": key,
            "title": titles.get(key, ""),
            "votes": f"{entry['count']:,}",
            "share": f"{entry['count'] / max(1, record['count']):.1%}",
            "voters": f"{entry['unique_voter_count']:,}",
            "anonymous": f"{entry['anonymous_voter_count']:,}",
            **({"average": str(entry["rating"]["average"] or "-")} if "rating" in entry else {}),
            **_by_source(entry, [source["source"] for source in record.get("total_vote_sources", ())]),
        }
        for key, entry in sorted(participants.items(), key=lambda item: -int(item[1]["count"]))
    ]


def _by_source(entry: dict[str, Any], sources: list[str]) -> dict[str, str]:
    """Sum the participant's votes by source; an external source has an entry for each of its mapped ids."""
    given = entry.get("vote_sources", ())
    return {name: f"{sum(one['count'] for one in given if one['source'] == name):,}" for name in sources}


def _quoted(value: str) -> str:
    """Return a single word as it is, anything else in quotes."""
    return value if len(value.split()) == 1 else json.dumps(value, ensure_ascii=False)
