"""Counts of a contest at an instant, folded from the log."""

from contextlib import aclosing
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from libs.audit.log_fold import LogFold
from libs.catalogue.contests.mapper import contest_of, sources_of
from libs.contracts.catalogue import ContestConfig
from libs.contracts.log_records import Position
from libs.contracts.position_token import encode_positions
from libs.contracts.topics import votes_topic
from libs.deployment.deployment import Deployment
from libs.kafka.reader import Extent, LogReader
from libs.results.counts import counts_of
from libs.results.results import results_of
from libs.results.vote_count import vote_count
from libs.tally.errors import NotFound
from libs.tally.fold import ContestTally
from libs.tally.time import timestamp
from libs.telemetry.progress import Progress
from libs.views.catalogue import CatalogueViews
from libs.views.functions import open_valkey

EVER: Final = 2**63


@dataclass(frozen=True, slots=True)
class Counted:
    """The vote count `record` of all that was appended up to `at` (us), by the records in `config`.

    `positions` are the partitions' offsets at that time, `last` is when the last event was appended (us).
    """

    record: dict[str, Any]
    config: ContestConfig
    positions: dict[int, Position]
    last: int | None
    at: int

    def as_json(self) -> dict[str, Any]:
        return {
            "record": self.record,
            "positions": {str(partition): at._asdict() for partition, at in sorted(self.positions.items())},
            "position": encode_positions({partition: at.offset for partition, at in self.positions.items()}),
            "last_event": timestamp(self.last),
            "at": timestamp(self.at),
        }


async def count_at(
    stack: Deployment, contest: str, at: int, now: int, *, sources: bool, progress: Progress | None = None
) -> Counted:
    """Count all that was appended up to `at` (us), or the whole log if `at` is not before `now`.

    Raises `NotFound`, `LogUnavailable`, `LogChanged` and `ViewsUnavailable`.
    """
    account, config = await read_contest(stack, contest)
    found = contest_of(account, config)
    if found is None or config.contest is None:
        raise NotFound(f"There is no contest {contest}.")
    until_ms = at // 1000 if at < now else EVER
    async with LogReader(stack.kafka_settings) as reader:
        folds, log_ids, last_ms = await fold_until(stack, reader, contest, until_ms, progress or Progress())
    offsets = {fold.partition: fold.offset for fold in folds}
    counts = counts_of([fold.tally.contests.get(contest, ContestTally()) for fold in folds], offsets)
    results = results_of(found, sources_of(config), counts)
    return Counted(
        record=vote_count(found, config.contest.created, counts, results, sources=sources),
        config=config,
        positions={partition: Position(log_ids.get(partition, ""), at) for partition, at in offsets.items()},
        last=last_ms * 1000 if last_ms else None,
        at=min(at, now),
    )


async def read_contest(stack: Deployment, contest: str) -> tuple[str, ContestConfig]:
    """Return the account that owns a contest, and the contest's records. Raises `NotFound`."""
    valkey = open_valkey(stack.valkey)
    try:
        views = CatalogueViews(valkey, stack.namespace)
        account = await views.find_owner("contests", contest)
        if account is None:
            raise NotFound(f"There is no contest {contest}.")
        return account, await views.contest_config(account, contest)
    finally:
        await valkey.close()


async def fold_until(
    stack: Deployment, reader: LogReader, contest: str | None, until_ms: int, progress: Progress
) -> tuple[list[LogFold], dict[int, str], int]:
    """Fold each partition up to the first record appended after `until_ms`, of one contest or of all.

    Returns also the log ids, and the append time (ms) of the last folded record. Kafka's time index is only a
    first estimate of the offset; the records' own times decide.
    """
    topic = votes_topic(stack.namespace, stack.partitions)
    partitions = range(topic.partitions)
    if until_ms == EVER:
        ends = await reader.end_offsets(topic.name, partitions)
    else:
        ends = await reader.offsets_from(topic.name, partitions, until_ms + 1)
    log_ids = await reader.log_ids(topic.name, partitions)
    progress.begin(sum(ends.values()))
    folds, last_ms = [LogFold(partition, contest) for partition in partitions], 0
    passed: set[int] = set()
    ranges = {partition: Extent(0, end) for partition, end in ends.items()}
    async with aclosing(reader.records(topic.name, ranges)) as batches:
        async for partition, records in batches:
            taken = list(takewhile(lambda record: record.timestamp_ms <= until_ms, records))
            if taken and partition not in passed:
                folds[partition].take(taken)
                last_ms = max(last_ms, *(record.timestamp_ms for record in taken))
            if len(taken) < len(records):
                passed.add(partition)
            progress.advance(len(records))
    return folds, log_ids, last_ms
