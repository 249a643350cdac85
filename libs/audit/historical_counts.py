"""Counts of a contest at an instant, folded from the log."""

from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from libs.audit.log_fold import LogFold, without_gc
from libs.catalogue.contests.contest_mapper import contest_of, sources_of
from libs.contracts.catalogue_events import ContestRecords
from libs.contracts.log_records import Position
from libs.deployment.deployment import Deployment
from libs.kafka.reader import Extent
from libs.results.contest_counts import counts_of
from libs.results.contest_results import results_of, vote_count
from libs.tally.errors import NotFound
from libs.tally.fold import ContestTally
from libs.tally.time_conversion import timestamp

EVER: Final = 2**63


@dataclass(frozen=True, slots=True)
class HistoricalCount:
    """The vote count `record` of all that was appended up to `at`, the contest's `title` and the participants'
    `titles`.

    `positions` are the partitions' offsets at that time, `last_event` is when the last event was appended.
    """

    record: dict[str, Any]
    title: str
    titles: dict[str, str]
    positions: dict[int, Position]
    last_event: str | None
    at: str | None


def titles_of(config: ContestRecords) -> dict[str, str]:
    return {stored.key: stored.document.get("title") or "" for stored in config.participants}


async def count_at(deployment: Deployment, contest: str, at: int, now: int, *, sources: bool) -> HistoricalCount:
    """Count all that was appended up to `at` (us), or the whole log if `at` is not before `now`.

    Raises `NotFound`, `LogUnavailable`, `LogChanged` and `ViewsUnavailable`.
    """
    account, config = await deployment.catalogue.contest(contest)
    found = contest_of(account, config)
    if found is None or config.contest is None:
        raise NotFound(f"Contest {contest} not found.")
    until_ms = at // 1000 if at < now else EVER
    partitions = deployment.votes.topic_from(found.votes_from).numbers
    folds, log_ids, last_ms = await fold_until(deployment, contest, until_ms, partitions)
    offsets = {fold.partition: fold.offset for fold in folds}
    counts = counts_of([fold.tally.contests.get(contest, ContestTally()) for fold in folds], offsets)
    results = results_of(found, sources_of(config), counts)
    return HistoricalCount(
        record=vote_count(found, config.contest.created, counts, results, sources=sources),
        title=config.contest.document.get("title") or "",
        titles=titles_of(config),
        positions={partition: Position(log_ids.get(partition, ""), at) for partition, at in offsets.items()},
        last_event=timestamp(last_ms * 1000) if last_ms else None,
        at=timestamp(min(at, now)),
    )


async def fold_until(
    deployment: Deployment, contest: str | None, until_ms: int, some: Collection[int] | None = None
) -> tuple[list[LogFold], dict[int, str], int]:
    """Fold each partition up to the first record appended after `until_ms`, of one contest or of all.

    Reads `some` partitions, by default all.
    Returns also the log ids, and the append time (ms) of the last folded record. Kafka's time index is only a
    first estimate of the offset; the records' own times decide.
    """
    topic, reader = deployment.votes, deployment.reader
    partitions = topic.numbers if some is None else some
    if until_ms == EVER:
        ends = await reader.end_offsets(topic.name, partitions)
    else:
        ends = await reader.offsets_from(topic.name, partitions, until_ms + 1)
    log_ids = await reader.log_ids(topic.name, partitions)
    deployment.progress.begin("Reading the log", sum(ends.values()))
    folds, last_ms = {partition: LogFold(partition, contest) for partition in partitions}, 0
    passed: set[int] = set()
    ranges = {partition: Extent(0, end) for partition, end in ends.items()}
    with without_gc():
        async with aclosing(reader.records(topic.name, ranges)) as batches:
            async for partition, records in batches:
                taken = list(takewhile(lambda record: record.timestamp_ms <= until_ms, records))
                if taken and partition not in passed:
                    folds[partition].take(taken)
                    last_ms = max(last_ms, *(record.timestamp_ms for record in taken))
                if len(taken) < len(records):
                    passed.add(partition)
                deployment.progress.advance(len(records))
    return list(folds.values()), log_ids, last_ms
