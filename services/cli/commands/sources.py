"""`tally sources`: lists external sources' reported and counted votes, and releases held decreases."""

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any

from typer import Argument, BadParameter
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
from services.cli.command_decorator import ContestKey, Execute, Titles, command, command_group, read_titles
from services.cli.operator_actions import record_action
from services.cli.output import Block, Result, Rows

app = command_group("External vote sources of contests.")


@command(app, "list")
async def list_sources(deployment: Deployment, contest: ContestKey) -> Result:
    """List a contest's external sources with their registrations, counted votes, and held votes with reasons."""
    shown, reported = await _read(deployment, contest)
    titles = await read_titles(deployment, contest)
    sources = [_listed(name, source, reported.get(name), titles) for name, source in shown.items()]
    members = {"contest_key": contest, "title": titles.title, "sources": sources}
    return Result(members, _text(titles, sources))


def _listed(name: str, source: ExternalCounts, reported: SourceCounts | None, titles: Titles) -> dict[str, Any]:
    """Return a source with the counted votes of its ids, and the reported ones that do not count."""
    config = source.config
    return {
        "source": name,
        "title": config.title,
        "is_in_total": config.is_in_total,
        "mode": config.mode,
        "retired": config.retired,
        "updated": timestamp(reported.updated_ms * 1000) if reported and reported.updated_ms else None,
        "closed": reported is not None and reported.closed > 0,
        "counted": [
            _figures(sums)
            | {"mapped_id": mapped_id, "participant_key": participant, "title": titles.of(participant)}
            for (participant, mapped_id), sums in source.counted.items()
        ],
        "held": [
            _figures(held.reported) | {"mapped_id": held.mapped_id, "reason": held.reason} for held in source.held
        ],
    }


def _figures(sums: VoteSums) -> dict[str, Any]:
    """Return votes and voters as the API names them."""
    return {"count": sums.count, "anonymous_voter_count": sums.anonymous, "unique_voter_count": sums.unique}


def _text(titles: Titles, sources: list[dict[str, Any]]) -> Iterator[Block]:
    yield f"Contest {titles}"
    if not sources:
        yield "The contest has no external sources."
    for source in sources:
        totals = "in total" if source["is_in_total"] else "not in total"
        state = "retired" if source["retired"] else source["mode"]
        yield f"{source['source']} ({source['title']}): {state}, {totals}, last report {source['updated'] or '-'}"
        yield Rows(
            [
                {
                    "id": votes["mapped_id"],
                    "participant": votes.get("participant_key", "-"),
                    "title": votes.get("title", ""),
                    "votes": votes["count"],
                    "state": f"held: {votes['reason']}" if "reason" in votes else "counted",
                }
                for votes in source["counted"] + source["held"]
            ]
        )


@command(app)
async def release(
    deployment: Deployment,
    contest: ContestKey,
    source: Annotated[str, Argument(help="Name of the source.")],
    execute: Execute = False,
) -> Result:
    """Count a source's latest report even where it is lower than before."""
    shown, reported = await _read(deployment, contest)
    if source not in shown:
        raise BadParameter(f"The contest has no vote source {source}.", param_hint="SOURCE")
    found, titles = reported.get(source), await read_titles(deployment, contest)
    held = (
        [] if found is None else [(name, found.figures[name], sums) for name, sums in sorted(found.held.items())]
    )
    if execute and held:
        await record_action(deployment, "report released", contest=contest, source=source)
        views, log = deployment.catalogue.views, await deployment.log()
        reporter = SourceReporter(deployment.votes, deployment.vote_views, views, log)
        account = await deployment.catalogue.owner_of(contest)
        permission = SourceReport(f"release-{uuid7()}", reported_at=None, counts=(), allow_decrease=True)
        await reporter.report(account, contest, source, permission)
    text = [f"Contest {titles}, source {source}"]
    text += [f"{name}: {before.count:,} -> {after.count:,}" for name, before, after in held]
    changes = [
        {"mapped_id": name, "before": _figures(before), "after": _figures(after)} for name, before, after in held
    ]
    members = {"contest_key": contest, "title": titles.title, "source": source, "released": changes}
    nothing = "" if held else "No lower counts are held."
    return Result.change(members, text, execute, "Released.", "release them", nothing)


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
