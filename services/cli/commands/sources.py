"""`tally sources`: lists external sources' reported and counted votes, and releases held decreases."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from uuid_utils import uuid7

from libs.catalogue.contests.mapper import sources_of
from libs.catalogue.contests.vote_sources import ExternalCounts, Held, external_counts
from libs.contracts.topics import source_log_key, votes_topic
from libs.deployment.deployment import Deployment, open_log
from libs.tally.counts import VoteSums
from libs.tally.time import timestamp
from libs.views.catalogue import CatalogueViews
from libs.views.functions import open_valkey
from libs.views.replies import SourceCounts
from libs.views.votes import VoteViews
from libs.voting.source_reports import SourceReport, SourceReporter
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.operator import record_action
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run

app = typer.Typer(no_args_is_help=True, help="External vote sources of contests.")

ContestKey = Annotated[str, typer.Argument(help="Key of the contest.")]


@dataclass(frozen=True, slots=True)
class SourcesContext:
    """Services for one contest and the account that owns it."""

    reporter: SourceReporter
    account: str
    contest: str

    async def read(self) -> tuple[dict[str, ExternalCounts], dict[str, SourceCounts]]:
        """Return the counted and the reported votes by source."""
        config = await self.reporter.catalogue.contest_config(self.account, self.contest)
        registered = sources_of(config)
        reported = await asyncio.gather(*map(self._reported, registered))
        counts = {name: found for name, found in zip(registered, reported, strict=True) if found is not None}
        return external_counts(registered, counts, {stored.key for stored in config.participants}), counts

    async def _reported(self, source: str) -> SourceCounts | None:
        partition = self.reporter.topic.partition_of(source_log_key(self.contest, source))
        found = await self.reporter.views.counts(partition, self.contest)
        return None if found is None else found.sources.get(source)


@asynccontextmanager
async def open_sources_context(stack: Deployment, contest: str) -> AsyncIterator[SourcesContext]:
    """Connect to the servers. Raises `BadParameter` for an unknown contest."""
    valkey = open_valkey(stack.valkey)
    try:
        catalogue = CatalogueViews(valkey, stack.namespace)
        account = await catalogue.find_owner("contests", contest)
        if account is None:
            raise typer.BadParameter(f"There is no contest {contest}.", param_hint="CONTEST")
        topic, views = votes_topic(stack.namespace, stack.partitions), VoteViews(valkey, stack.namespace)
        async with open_log(stack) as log:
            yield SourcesContext(SourceReporter(topic, views, catalogue, log), account, contest)
    finally:
        await valkey.close()


@app.command("list")
def list_sources(contest: ContestKey, data_dir: DataDir = DATA_DIR, as_json: AsJson = False) -> None:
    """List a contest's external sources with their registrations, counted votes, and held votes with reasons."""

    async def work() -> ExitCode:
        async with open_sources_context(find_deployment(data_dir), contest) as context:
            shown, reported = await context.read()
        sources = [_source(name, external, reported.get(name)) for name, external in shown.items()]
        if as_json:
            print_json({"contest_key": contest, "sources": sources})
        else:
            show(sources)
        return ExitCode.FINE

    run(work())


@app.command()
def release(
    contest: ContestKey,
    source: Annotated[str, typer.Argument(help="Name of the source.")],
    execute: Annotated[bool, typer.Option("--execute", help="Execute it; default: only show the effect.")] = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Count a source's latest report even where it is lower than before."""

    async def work() -> ExitCode:
        stack = find_deployment(data_dir)
        async with open_sources_context(stack, contest) as context:
            shown, reported = await context.read()
            if source not in shown:
                raise typer.BadParameter(f"The contest has no vote source {source}.", param_hint="SOURCE")
            found = reported.get(source)
            lower = {} if found is None else {name: (found.figures[name], now) for name, now in found.held.items()}
            if execute and lower:
                await record_action(stack, "report released", contest=contest, source=source)
                await context.reporter.report(context.account, contest, source, _permission())
        if as_json:
            changes = [
                {"mapped_id": name, "from": _figures(before), "to": _figures(after)}
                for name, (before, after) in sorted(lower.items())
            ]
            print_json({"contest_key": contest, "source": source, "executed": execute, "released": changes})
            return ExitCode.FINE
        for name, (before, after) in sorted(lower.items()):
            typer.echo(f"{name}: {before.count:,} -> {after.count:,}")
        if not lower:
            typer.echo("No lower counts are held.")
        else:
            typer.echo("Released." if execute else "Run again with --execute to release them.")
        return ExitCode.FINE

    run(work())


def show(sources: list[dict[str, Any]]) -> None:
    """Print a table per source on a terminal, otherwise one line per id."""
    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    if not sources:
        console.print("The contest has no external sources.")
    for source in sources:
        totals = "in total" if source["is_in_total"] else "not in total"
        state = "retired" if source["retired"] else source["mode"]
        title = (
            f"{source['source']} ({source['title']}): {state}, {totals}, last report {source['updated'] or '-'}"
        )
        rows = [(row["mapped_id"], row["participant_key"], row["count"], "counted") for row in source["counted"]]
        rows += [(row["mapped_id"], "-", row["count"], f"held: {row['reason']}") for row in source["held"]]
        if console.is_terminal and rows:
            table = Table("id", "participant", "votes", "", title=title, title_justify="left", box=None)
            for mapped_id, participant, count, what in rows:
                table.add_row(mapped_id, participant, f"{count:,}", what)
            console.print(table, soft_wrap=False)
        else:
            console.out(title)
            for mapped_id, participant, count, what in rows:
                console.out(f"{source['source']}: id={mapped_id} participant={participant} votes={count} {what}")


def _permission() -> SourceReport:
    return SourceReport(report_id=f"release-{uuid7()}", reported_at=None, counts=(), allow_decrease=True)


def _source(name: str, external: ExternalCounts, reported: SourceCounts | None) -> dict[str, Any]:
    config = external.config
    return {
        "source": name,
        "title": config.title,
        "is_in_total": config.is_in_total,
        "mode": config.mode,
        "retired": config.retired,
        "updated": timestamp(reported.updated_ms * 1000) if reported and reported.updated_ms else None,
        "closed": reported is not None and reported.closed > 0,
        "counted": [
            {"mapped_id": mapped_id, "participant_key": participant, **_figures(figures)}
            for (participant, mapped_id), figures in external.counted.items()
        ],
        "held": [_held(held) for held in external.held],
    }


def _held(held: Held) -> dict[str, Any]:
    return {"mapped_id": held.mapped_id, "reason": held.reason, **_figures(held.reported)}


def _figures(figures: VoteSums) -> dict[str, int]:
    return {
        "count": figures.count,
        "anonymous_voter_count": figures.anonymous,
        "unique_voter_count": figures.unique,
    }
