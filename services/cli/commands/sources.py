"""`tally sources`: lists external sources' reported and counted votes, and releases held decreases."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer
from uuid_utils import uuid7

from libs.catalogue.contests.closing_record import votes_from
from libs.catalogue.contests.contest_mapper import sources_of
from libs.catalogue.contests.vote_sources import ExternalCounts, external_counts
from libs.contracts.topics import source_log_key
from libs.deployment.deployment import Deployment
from libs.tally.counts import VoteSums
from libs.tally.time_conversion import timestamp
from libs.views.votes.reply_types import SourceCounts
from libs.voting.source_reports import SourceReport, SourceReporter
from services.cli.command_decorator import ContestKey, Execute, command, command_group
from services.cli.contest_lookup import Titles, named, read_titles
from services.cli.operator_actions import record_action
from services.cli.render import Block, Rows

app = command_group("External vote sources of contests.")


@dataclass(frozen=True, slots=True)
class Figures:
    """Votes and voters as in the API."""

    count: int
    anonymous_voter_count: int
    unique_voter_count: int

    @classmethod
    def of(cls, sums: VoteSums) -> "Figures":
        return cls(sums.count, sums.anonymous, sums.unique)


@dataclass(frozen=True, slots=True)
class CountedVotes(Figures):
    """Counted votes of one of the source's ids."""

    mapped_id: str
    participant_key: str
    title: str


@dataclass(frozen=True, slots=True)
class HeldVotes(Figures):
    """Reported votes that do not count, with the reason."""

    mapped_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ListedSource:
    """An external source; its last report was `updated`."""

    source: str
    title: str
    is_in_total: bool
    mode: str
    retired: bool
    updated: str | None
    closed: bool
    counted: list[CountedVotes]
    held: list[HeldVotes]

    @classmethod
    def of(
        cls, name: str, external: ExternalCounts, reported: SourceCounts | None, titles: Titles
    ) -> "ListedSource":
        config = external.config
        return cls(
            source=name,
            title=config.title,
            is_in_total=config.is_in_total,
            mode=config.mode,
            retired=config.retired,
            updated=timestamp(reported.updated_ms * 1000) if reported and reported.updated_ms else None,
            closed=reported is not None and reported.closed > 0,
            counted=[
                CountedVotes(
                    sums.count, sums.anonymous, sums.unique, mapped_id, participant, titles.of(participant)
                )
                for (participant, mapped_id), sums in external.counted.items()
            ],
            held=[
                HeldVotes(
                    one.reported.count, one.reported.anonymous, one.reported.unique, one.mapped_id, one.reason
                )
                for one in external.held
            ],
        )


@dataclass(frozen=True, slots=True)
class Sources:
    contest_key: str
    title: str
    sources: list[ListedSource]


@dataclass(frozen=True, slots=True)
class ReleasedVotes:
    """Votes of one of the source's ids before and after the release."""

    mapped_id: str
    before: Figures
    after: Figures


@dataclass(frozen=True, slots=True)
class Released:
    contest_key: str
    title: str
    source: str
    executed: bool
    released: list[ReleasedVotes]


def _list(result: Sources) -> Iterator[Block]:
    yield f"Contest {named(result.contest_key, result.title)}"
    if not result.sources:
        yield "The contest has no external sources."
    for source in result.sources:
        totals = "in total" if source.is_in_total else "not in total"
        state = "retired" if source.retired else source.mode
        yield f"{source.source} ({source.title}): {state}, {totals}, last report {source.updated or '-'}"
        rows = [(one.mapped_id, one.participant_key, one.title, one.count, "counted") for one in source.counted]
        rows += [(one.mapped_id, "-", "", one.count, f"held: {one.reason}") for one in source.held]
        names = "id", "participant", "title", "votes", "state"
        yield Rows([dict(zip(names, row, strict=True)) for row in rows])


@app.command("list")
@command(text=_list)
async def list_sources(deployment: Deployment, contest: ContestKey) -> Sources:
    """List a contest's external sources with their registrations, counted votes, and held votes with reasons."""
    shown, reported = await _read(deployment, contest)
    titles = await read_titles(deployment, contest)
    listed = [ListedSource.of(name, one, reported.get(name), titles) for name, one in shown.items()]
    return Sources(contest, titles.title, listed)


def _released(result: Released) -> Iterator[Block]:
    yield f"Contest {named(result.contest_key, result.title)}, source {result.source}"
    for one in result.released:
        yield f"{one.mapped_id}: {one.before.count:,} -> {one.after.count:,}"
    if not result.released:
        yield "No lower counts are held."
    else:
        yield "Released." if result.executed else "Run again with --execute to release them."


@app.command()
@command(text=_released)
async def release(
    deployment: Deployment,
    contest: ContestKey,
    source: Annotated[str, typer.Argument(help="Name of the source.")],
    execute: Execute = False,
) -> Released:
    """Count a source's latest report even where it is lower than before."""
    shown, reported = await _read(deployment, contest)
    if source not in shown:
        raise typer.BadParameter(f"The contest has no vote source {source}.", param_hint="SOURCE")
    found = reported.get(source)
    held = {} if found is None else found.held
    changes = [
        ReleasedVotes(name, Figures.of(found.figures[name]), Figures.of(lower))
        for name, lower in sorted(held.items())
        if found is not None
    ]
    if execute and changes:
        await record_action(deployment, "report released", contest=contest, source=source)
        views, log = deployment.catalogue.views, await deployment.log()
        reporter = SourceReporter(deployment.votes, deployment.vote_views, views, log)
        account = await deployment.catalogue.owner_of(contest)
        permission = SourceReport(f"release-{uuid7()}", reported_at=None, counts=(), allow_decrease=True)
        await reporter.report(account, contest, source, permission)
    return Released(contest, (await read_titles(deployment, contest)).title, source, execute, changes)


async def _read(deployment: Deployment, contest: str) -> tuple[dict[str, ExternalCounts], dict[str, SourceCounts]]:
    """Return the counted and the reported votes by source. Raises `NotFound`."""

    _, config = await deployment.catalogue.contest(contest)
    topic = deployment.votes.topic_from(0 if config.contest is None else votes_from(config.contest.document))

    async def reported(source: str) -> SourceCounts | None:
        partition = topic.partition_of(source_log_key(contest, source))
        found = await deployment.vote_views.counts(partition, contest)
        return None if found is None else found.sources.get(source)

    registered = sources_of(config)
    each = await asyncio.gather(*map(reported, registered))
    counts = {name: found for name, found in zip(registered, each, strict=True) if found is not None}
    return external_counts(registered, counts, {stored.key for stored in config.participants}), counts
