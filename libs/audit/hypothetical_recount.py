"""Recounts a contest as if some votes had not been cast, or other rules had held.

Read only, so also of sealed contests. The reference fold folds what was cast. Votes that were refused when they
were sent are not in the log: under looser rules there might have been more.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final

from libs.audit.log_fold import is_foldable, without_gc
from libs.audit.recount import EVER, NO_VOTES, record_of
from libs.catalogue.contests.contest_mapper import contest_of
from libs.contracts.catalogue_events import ContestRecords
from libs.contracts.codec import Undecodable, vote_codec
from libs.contracts.log_records import LogRecord, about
from libs.deployment.deployment import Deployment
from libs.kafka.reader import Extent
from libs.results.contest_counts import counts_of
from libs.tally.contest import Contest, Renewal
from libs.tally.errors import NotFound
from libs.tally.events import Event, VoteCast
from libs.tally.fold import ContestTally, PartitionTally

SLICE: Final = 2_000
"""Records folded before other tasks of the event loop run."""

Ask = Callable[[Event], Event | None]
"""Returns the event to fold instead; None to leave it out."""


def as_cast(event: Event) -> Event:
    return event


@dataclass(frozen=True, slots=True)
class OtherRules:
    """Rules to recount by. Limits are by source; what is not set is as it was when each vote was admitted.

    `weights` multiply the votes of a source in the result, not what they use of a limit.
    """

    max_participant: Mapping[str, int] = field(default_factory=dict)
    max_contest: Mapping[str, int] = field(default_factory=dict)
    renewal: Renewal | None = None
    weights: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.max_participant or self.max_contest or self.weights) or self.renewal is not None


class Hypothesis:
    """Changes the events of a partition, in its order: `leaves_out` was not cast, and `rules` held."""

    def __init__(self, leaves_out: Callable[[VoteCast], bool], rules: OtherRules) -> None:
        self._leaves_out = leaves_out
        self._rules = rules
        self._periods: dict[str, tuple[int, int]] = {}
        """Of each voter the time of the latest free vote and its allowance period, under another renewal."""

    def __call__(self, event: Event) -> Event | None:
        if not isinstance(event, VoteCast):
            return event
        if self._leaves_out(event):
            return None
        rules, source = self._rules, event.source
        changed = replace(
            event,
            max_participant=rules.max_participant.get(source, event.max_participant),
            max_contest=rules.max_contest.get(source, event.max_contest),
        )
        return changed if rules.renewal is None or source != "c-free" else self._renewed(changed, rules.renewal)

    def _renewed(self, cast: VoteCast, renewal: Renewal) -> VoteCast:
        latest, epoch = self._periods.get(cast.voter, (0, 0))
        due = renewal.after(latest) if latest else None
        epoch += due is not None and cast.accepted_at >= due
        self._periods[cast.voter] = max(latest, cast.accepted_at), epoch
        return replace(cast, epoch=epoch, next_free_vote_at=renewal.after(cast.accepted_at))


class AskedFold:
    """Folds one contest's records of a partition: as they stand until one time, and as they are asked for."""

    def __init__(self, contest: str, ask: Ask, stands_until_ms: int = EVER) -> None:
        self._contest = contest
        self._ask = ask
        self._stands_until_ms = stands_until_ms
        self._stands, self._asked = PartitionTally(), PartitionTally()

    def take(self, records: Sequence[LogRecord]) -> None:
        some = about(records, self._contest)
        for record, event in zip(some, vote_codec.decode_many([one.value for one in some]), strict=True):
            if isinstance(event, Undecodable) or not is_foldable(event):
                continue
            if getattr(event, "contest", self._contest) != self._contest:
                continue
            if record.timestamp_ms <= self._stands_until_ms:
                self._stands.evolve(event, record.offset, record.timestamp_ms)
            if (changed := self._ask(event)) is not None:
                self._asked.evolve(changed, record.offset, record.timestamp_ms)

    @property
    def stands(self) -> ContestTally:
        return self._stands.contests.get(self._contest, NO_VOTES)

    @property
    def asked(self) -> ContestTally:
        return self._asked.contests.get(self._contest, NO_VOTES)


@dataclass(frozen=True, slots=True)
class Asked:
    """A contest, its configuration, and its vote count records as it `stands` and as `asked`."""

    contest: Contest
    config: ContestRecords
    stands: dict[str, Any]
    asked: dict[str, Any]


async def recount(
    deployment: Deployment,
    key: str,
    leaves_out: Callable[[VoteCast], bool],
    rules: OtherRules,
    without_external: Collection[str] = (),
) -> Asked:
    """Recount a contest without the votes that `leaves_out` selects and the external sources of these names.

    Raises `NotFound`, and the errors of reading the log.
    """
    contest, config = await read_contest(deployment, key)
    stands, asked = [], []
    async with aclosing(folds(deployment, contest, lambda: Hypothesis(leaves_out, rules))) as partitions:
        async for one in partitions:
            stands.append(without_voters(one.stands))
            asked.append(weighed(without_voters(one.asked), rules.weights))
            for name in without_external:
                asked[-1].sources.pop(name, None)
    return _asked(contest, config, stands, asked)


async def compare_moments(deployment: Deployment, key: str, first: int, second: int) -> Asked:
    """Compare the counts of all that was appended up to two times (us). Raises as `recount`."""
    contest, config = await read_contest(deployment, key)
    async with aclosing(folds(deployment, contest, lambda: as_cast, first // 1000, second // 1000)) as partitions:
        pairs = [(without_voters(one.stands), without_voters(one.asked)) async for one in partitions]
    return _asked(contest, config, *([pair[at] for pair in pairs] for at in (0, 1)))


def _asked(
    contest: Contest, config: ContestRecords, stands: Sequence[ContestTally], asked: Sequence[ContestTally]
) -> Asked:
    records = (record_of(contest, config, counts_of(each, {}), sources=True) for each in (stands, asked))
    return Asked(contest, config, *records)


async def read_contest(deployment: Deployment, key: str) -> tuple[Contest, ContestRecords]:
    """Return a contest and its records. Raises `NotFound`."""
    account, config = await deployment.catalogue.contest(key)
    contest = contest_of(account, config)
    if contest is None or config.contest is None:
        raise NotFound(f"Contest {key} not found.")
    return contest, config


async def folds(
    deployment: Deployment,
    contest: Contest,
    ask: Callable[[], Ask],
    stands_until_ms: int = EVER,
    until_ms: int = EVER,
) -> AsyncGenerator[AskedFold, None]:
    """Fold the contest's partitions up to the records appended at `until_ms`; each by an `ask` of its own.

    Voters are in one partition each: a caller that keeps no fold holds the voters of one at a time.
    """
    with without_gc():
        for partition in deployment.votes.topic_from(contest.votes_from).numbers:
            found = AskedFold(contest.key, ask(), stands_until_ms)
            async with aclosing(records_until(deployment, partition, until_ms)) as batches:
                async for records in batches:
                    found.take(records)
            yield found
            del found


async def records_until(
    deployment: Deployment, partition: int, until_ms: int = EVER
) -> AsyncGenerator[Sequence[LogRecord], None]:
    """Yield a partition's records up to the first one appended after `until_ms`, in slices."""
    reader, name = deployment.reader, deployment.votes.name
    ends = await reader.end_offsets(name, [partition])
    deployment.progress.begin(f"Reading partition {partition}", ends[partition])
    async with aclosing(reader.records(name, {partition: Extent(0, ends[partition])})) as batches:
        async for _, records in batches:
            for at in range(0, len(records), SLICE):
                some = [record for record in records[at : at + SLICE] if record.timestamp_ms <= until_ms]
                if some:
                    yield some
                if len(some) < min(SLICE, len(records) - at):
                    return
            deployment.progress.advance(len(records))


def weighed(tally: ContestTally, weights: Mapping[str, int]) -> ContestTally:
    """Multiply the votes of internal sources in the tally's figures."""
    for (_, source), figures in tally.figures.items():
        figures.count *= weights.get(source, 1)
    return tally


def without_voters(tally: ContestTally) -> ContestTally:
    """Return the sums of a tally, which take no memory by voter."""
    return replace(tally, voters={}, waiting={}, waiting_voids={}, touched=set())
