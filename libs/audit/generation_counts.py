"""Counts of a contest in one generation, such as a replay's beside the live one."""

import asyncio
import time

from libs.audit.historical_counts import Counted, titles_of
from libs.catalogue.contests.contest_mapper import contest_of, sources_of
from libs.contracts.votes_log import VotesLog
from libs.deployment.deployment import Deployment
from libs.results.contest_counts import sum_of
from libs.results.contest_results import results_of, vote_count
from libs.tally.contest import Contest
from libs.tally.errors import NotFound
from libs.tally.time_conversion import timestamp
from libs.views.generations import TIMELINE, Generations
from libs.views.reply_types import ContestCounts
from libs.views.vote_views import VoteViews


async def scope_of(deployment: Deployment, generation: int) -> str:
    """Return the contest of a generation of a single contest, or "" for all contests. Raises `NotFound`."""
    generations = Generations(deployment.valkey, deployment.namespace, "votes", deployment.votes)
    scope = await generations.scope(generation)
    if scope is None:
        raise NotFound(f"Generation {generation} of the votes not found; `tally replay run` prints its own.")
    return "" if scope == TIMELINE else scope


async def count_in(deployment: Deployment, contest: str, generation: int, *, sources: bool) -> Counted:
    """Return the contest's counts in `generation`. Raises `NotFound` and `ViewsUnavailable`."""
    if await scope_of(deployment, generation) not in ("", contest):
        raise NotFound(f"Generation {generation} is not of contest {contest}.")
    account, config = await deployment.catalogue.contest(contest)
    found = contest_of(account, config)
    if found is None or config.contest is None:
        raise NotFound(f"Contest {contest} not found.")
    views = VoteViews(deployment.valkey, deployment.namespace, deployment.votes, generation=generation)
    parts = await counts_by_partition(views, deployment.votes, found)
    counts = sum_of(parts)
    results = results_of(found, sources_of(config), counts)
    last = None if counts.updated_ms is None else counts.updated_ms * 1000
    return Counted(
        record=vote_count(found, config.contest.created, counts, results, sources=sources),
        title=config.contest.document.get("title") or "",
        titles=titles_of(config),
        positions={partition: part.position for partition, part in parts.items()},
        last_event=timestamp(last),
        at=timestamp(last or time.time_ns() // 1000),
    )


async def counts_by_partition(views: VoteViews, log: VotesLog, contest: Contest) -> dict[int, ContestCounts]:
    """Return the contest's counts in each partition of its topic. Raises `ViewsUnavailable`."""
    partitions = log.topic_from(contest.votes_from).numbers
    found = await asyncio.gather(*(views.counts(partition, contest.key) for partition in partitions))
    return {partition: part for partition, part in zip(partitions, found, strict=True) if part is not None}
