"""A contest's votes from the log: its counts at a past time, a voter's votes, its result without some."""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final, NamedTuple

import orjson

from libs.audit.log_fold import LogFold, without_gc
from libs.catalogue.contests.contest_mapper import contest_of, sources_of
from libs.catalogue.contests.seals import is_sealed
from libs.contracts.catalogue_events import ContestRecords
from libs.contracts.log_records import Position
from libs.deployment.deployment import Deployment
from libs.kafka.reader import Extent
from libs.results.contest_counts import Counts, counts_of, read_counts
from libs.results.contest_results import places_in, results_of, vote_count
from libs.storage.secrets import find_contest_secret
from libs.tally.contest import Contest, Phase
from libs.tally.errors import ContestFinal, NotFound
from libs.tally.events import ContestReopened, VoteRestored, VoteVoided
from libs.tally.fold import ContestTally
from libs.tally.time_conversion import timestamp
from libs.tally.voter_ledger import FoldedVote


async def read_secret(deployment: Deployment, contest: str) -> bytes:
    """Return the secret of the contest's pseudonyms. Raises `NotFound` if there is none, `StorageUnavailable`."""
    secret = await find_contest_secret(deployment.store, contest)
    if secret is None:
        await deployment.catalogue.owner_of(contest)
        raise NotFound(
            f"No secret of contest {contest} is in the object store: it has no votes yet, or "
            "TALLY_STORAGE_URL names another store. Without it votes cannot be found by voter or address."
        )
    return secret


VoidEvent = VoteVoided | VoteRestored
NO_VOTES: Final = ContestTally()


class PositionedVote(NamedTuple):
    """A vote and its position in the log."""

    partition: int
    voter: str
    vote: FoldedVote


@dataclass(frozen=True, slots=True)
class Ballots:
    """All votes of a contest up to `positions` (an offset per partition), read at `at` (us).

    For a contest that is over, they are as after a reopening, with all waiting changes applied.
    """

    contest: Contest
    config: ContestRecords
    folds: list[LogFold]
    at: int

    @property
    def is_over(self) -> bool:
        return self.contest.phase(self.at) is Phase.FINISHED

    @property
    def positions(self) -> dict[int, int]:
        return {fold.partition: fold.offset for fold in self.folds}

    @property
    def voids(self) -> dict[str, VoteVoided]:
        """Return the first record of each void operation on these votes, by operation id."""
        found: dict[str, VoteVoided] = {}
        for ballot in self:
            for event in ballot.vote.voids:
                found.setdefault(event.void, event)
        return found

    def __iter__(self) -> Iterator[PositionedVote]:
        for fold in self.folds:
            for voter, ledger in self._tally(fold).voters.items():
                for vote in ledger.votes.values():
                    yield PositionedVote(fold.partition, voter, vote)

    def record(self) -> dict[str, Any]:
        """Return the vote count record of these votes."""
        return record_of(self.contest, self.config, counts_of([self._tally(fold) for fold in self.folds], {}))

    async def served(self, deployment: Deployment) -> dict[str, Any]:
        """Return the vote count record of the views."""
        counts = await read_counts(deployment.vote_views, deployment.votes, self.contest)
        return record_of(self.contest, self.config, counts)

    def reopened(self, document: dict[str, Any]) -> "Ballots":
        """Return the same votes with the contest's `document` as of its reopening."""
        assert self.config.contest is not None
        stored = replace(self.config.contest, record=orjson.dumps(document).decode())
        config = replace(self.config, contest=stored)
        contest = contest_of(self.contest.account, config)
        assert contest is not None
        return replace(self, contest=contest, config=config)

    def fold(self, partition: int, event: VoidEvent) -> None:
        """Apply `event` to the fold of `partition`, as if it were appended to the log."""
        fold = next(each for each in self.folds if each.partition == partition)
        fold.tally.contests[self.contest.key].void(event)

    def _tally(self, fold: LogFold) -> ContestTally:
        return fold.tally.contests.get(self.contest.key, NO_VOTES)


def record_of(
    contest: Contest, config: ContestRecords, counts: Counts, *, sources: bool = False
) -> dict[str, Any]:
    """Return the vote count record of the counts; `sources` adds those by source."""
    created = 0 if config.contest is None else config.contest.created
    results = results_of(contest, sources_of(config), counts)
    return vote_count(contest, created, counts, results, sources=sources)


async def read_ballots(deployment: Deployment, key: str) -> Ballots:
    """Read all votes of a contest.

    Raises `NotFound`, `ContestFinal` while it is sealed or closing, and the errors of reading the log.
    """
    account, config = await deployment.catalogue.contest(key)
    contest = contest_of(account, config)
    if contest is None or config.contest is None:
        raise NotFound(f"Contest {key} not found.")
    if is_sealed(config.contest.document):
        raise ContestFinal("The contest is sealed: its result cannot change. Run `tally unseal` first.")
    now = time.time_ns() // 1000
    partitions = deployment.votes.topic_from(contest.votes_from).numbers
    folds, _, _ = await fold_until(deployment, key, EVER, partitions)
    tallies = [fold.tally.contests.get(key, NO_VOTES) for fold in folds]
    if is_being_closed(contest, tallies, now):
        raise ContestFinal("The contest has ended and is closing: run this command again in a few seconds.")
    for tally in tallies:
        tally.reopen(ContestReopened(key, abs(tally.closed)))
    return Ballots(contest, config, folds, now)


def is_being_closed(contest: Contest, tallies: Sequence[ContestTally], now: int) -> bool:
    """Return whether the contest is closing, so that a record appended now may land before or after a close
    marker.
    """
    over = contest.phase(now) is Phase.FINISHED
    return over and not (contest.closed and all(tally.closed == contest.closed for tally in tallies))


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
    return HistoricalCount(
        record=record_of(found, config, counts, sources=sources),
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


class Pair(NamedTuple):
    """A number before and after a change."""

    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.before:,}" if self.before == self.after else f"{self.before:,} -> {self.after:,}"


@dataclass(frozen=True, slots=True)
class Totals:
    """Votes and voters of the contest."""

    count: Pair
    unique_voter_count: Pair


@dataclass(frozen=True, slots=True)
class ParticipantEffect:
    """Votes, voters and rank of a participant."""

    participant_key: str
    title: str
    count: Pair
    unique_voter_count: Pair
    rank: Pair


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of an operation with so many `votes` and `voters` on the contest and its participants.

    Those are sorted by the change of their rank.
    """

    void: str
    contest_key: str
    title: str
    executed: bool
    waits_for_reopening: bool
    votes: int
    voters: int
    contest: Totals
    participants: Sequence[ParticipantEffect]
    at: str | None
    positions: dict[int, int]


def effect(
    ballots: Ballots,
    before: dict[str, Any],
    after: dict[str, Any],
    events: Sequence[tuple[int, VoidEvent]],
    *,
    void: str,
    executed: bool,
) -> Effect:
    """Return the effect of `events`, by partition, on the counts: from one vote count record to another."""
    config = ballots.config.contest
    contest, participants = changes(ballots.config, before, after)
    return Effect(
        void=void,
        contest_key=ballots.contest.key,
        title="" if config is None else config.document.get("title") or "",
        executed=executed,
        waits_for_reopening=ballots.is_over,
        votes=len(events),
        voters=len({event.voter for _, event in events}),
        contest=contest,
        participants=participants,
        at=timestamp(ballots.at),
        positions=ballots.positions,
    )


def changes(
    config: ContestRecords, before: dict[str, Any], after: dict[str, Any]
) -> tuple[Totals, list[ParticipantEffect]]:
    """Return what changes from one vote count record to another; participants by the change of their rank."""
    titles, then, now = titles_of(config), before["participants"], after["participants"]
    ranks = places_in(then), places_in(now)
    rows = [
        ParticipantEffect(
            participant_key=key,
            title=titles.get(key, ""),
            count=Pair(entry["count"], now[key]["count"]),
            unique_voter_count=Pair(entry["unique_voter_count"], now[key]["unique_voter_count"]),
            rank=Pair(ranks[0][key], ranks[1][key]),
        )
        for key, entry in then.items()
    ]
    rows.sort(key=lambda row: (-_change(row.rank), -_change(row.count), row.rank.after))
    count, voters = (Pair(before[name], after[name]) for name in ("count", "unique_voter_count"))
    return Totals(count, voters), rows


def _change(pair: Pair) -> int:
    return abs(pair.after - pair.before)
