"""Caches the latest snapshot of each contest, and bounds the cost of refreshing it."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from libs.catalogue.contests.closing_record import show_in_force, votes_from
from libs.catalogue.contests.contest_mapper import contest_of, sources_of
from libs.catalogue.contests.corrections import as_closed, corrections
from libs.catalogue.schemas.contest import Contest as ContestRecord
from libs.catalogue.schemas.contest import Show
from libs.concurrency.tasks import SingleFlight
from libs.contracts.catalogue_events import ContestRecords
from libs.contracts.topics import Topic, VotesLog
from libs.tally.contest import Contest
from libs.tally.errors import NotFound
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.partition_reads import Mark
from libs.views.votes.vote_views import VoteViews
from services.query.contest_sums import NO_POSITIONS, ContestSums
from services.query.counts_snapshot import Snapshot
from services.query.position_wait import PositionWatch

MOST_CONTESTS: Final = 1_000
LEAST_INTERVAL_S: Final = 0.005
LOAD: Final = 10
"""After a read that took t, votes are read again after LOAD * t. Two thirds of t are CPU time, so a contest takes
7 % of a process."""
LOOK_APART_S: Final = 0.001
"""Time between reads of the catalogue's position: at most a tenth of a process, for any number of requests."""


@dataclass(slots=True)
class CachedSnapshot:
    """The cache entry of one contest. `seen` is the catalogue's position before `config` was read.

    The next read includes all offsets before `positions`.
    """

    sums: ContestSums | None = None
    wanted: Mark | None = None
    positions: Mapping[int, int] = field(default_factory=dict)
    seen: Mark | None = None
    snapshot: Snapshot | None = None
    fresh_until: float = 0.0
    rounds: SingleFlight[Snapshot] = field(init=False)


class SnapshotCache:
    """Snapshots of the contests of one environment.

    Every snapshot includes the catalogue writes acknowledged before the call: one shared read of the catalogue's
    position per round trip detects them. Votes are included after `interval_s` at the latest, sooner if that is
    cheap, and at once for callers with a position. Concurrent requests share the work.
    """

    def __init__(
        self,
        views: VoteViews,
        watch: PositionWatch,
        catalogue: CatalogueViews,
        catalogue_topic: Topic,
        votes: VotesLog,
        interval_s: float,
    ) -> None:
        self._views = views
        self._watch = watch
        self._catalogue = catalogue
        self._topic = catalogue_topic
        self._votes = votes
        self._interval_s = interval_s
        self._entries: OrderedDict[tuple[str, str], CachedSnapshot] = OrderedDict()
        self._looks = [self._look(partition) for partition in range(catalogue_topic.partitions)]
        self._partition_of: dict[str, int] = {}
        self._voting_time = 0

    async def get(
        self, account: str, key: str, wanted: Mapping[int, int] = NO_POSITIONS, within_s: float = 5.0
    ) -> Snapshot:
        """Return a snapshot with all offsets before `wanted`. Raises `NotFound` and `ViewsUnavailable`."""
        mark = await self._looks[self._partition(account)].next()
        entry = self._entry(account, key)
        fresh = _is_fresh(entry, mark)
        if wanted and not (entry.snapshot and covers(entry.snapshot.counts.positions, wanted)):
            await self._watch.reach(wanted, within_s)
            entry.positions = _later(entry.positions, wanted)
            fresh = False
        if entry.snapshot is None or not fresh:
            entry.wanted = mark
            return await entry.rounds.next()
        entry.snapshot = entry.snapshot.at(now())
        return entry.snapshot

    async def mark(self, account: str) -> Mark:
        """Return a mark of the part of the catalogue with this account. Raises `ViewsUnavailable`."""
        return await self._looks[self._partition(account)].next()

    async def newest(self, account: str, key: str) -> Snapshot:
        """Return a snapshot read after this call; the same one if nothing changed. Raises as `get`."""
        mark = await self._looks[self._partition(account)].next()
        entry = self._entry(account, key)
        entry.wanted = mark
        return await entry.rounds.next()

    async def is_published(self, contest: Contest) -> bool:
        """Return whether the contest is published by the clock that decides on votes: that of this process may be
        ahead. Raises `ViewsUnavailable`."""
        if contest.publish is None or contest.publish > now():
            return False
        if contest.publish > self._voting_time:
            state = await self._views.state(self._votes.topic_from(contest.votes_from).first)
            self._voting_time = max(self._voting_time, state.now)
        return contest.publish <= self._voting_time

    def _entry(self, account: str, key: str) -> CachedSnapshot:
        name = account, key
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = self._new_entry(account, key)
            if len(self._entries) > MOST_CONTESTS:
                self._entries.popitem(last=False)
        return entry

    def _new_entry(self, account: str, key: str) -> CachedSnapshot:
        entry = CachedSnapshot()
        entry.rounds = SingleFlight(lambda: self._build(entry, account, key))
        return entry

    async def _build(self, entry: CachedSnapshot, account: str, key: str) -> Snapshot:
        """Read changes once for all waiting callers; returns the former snapshot if there are none."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        before, seen = entry.snapshot, entry.wanted
        positions, entry.positions = entry.positions, {}
        sums = entry.sums
        if sums is None:
            config = await self._catalogue.contest_config(account, key)
            first = 0 if config.contest is None else votes_from(config.contest.document)
            sums = ContestSums(self._views, key, self._votes.topic_from(first).numbers)
            changed = await sums.refresh()
            entry.sums = sums
        elif before is not None and entry.seen == seen:
            config = before.config
            changed = await sums.refresh(positions)
        else:
            config, changed = await asyncio.gather(
                self._catalogue.contest_config(account, key), sums.refresh(positions)
            )
        snapshot = before if before is not None and config == before.config else _snapshot(account, config)
        if snapshot is None:
            self._entries.pop((account, key), None)
            raise NotFound(f"Contest {key} not found.")
        if changed or snapshot is not before or snapshot.phase is not snapshot.contest.phase(now()):
            snapshot = _counted(snapshot, sums)
        entry.snapshot = snapshot
        pause_s = max(LEAST_INTERVAL_S, (loop.time() - began) * LOAD)
        entry.seen = seen
        entry.fresh_until = began + min(self._interval_s, pause_s)
        if (account, key) in self._entries:
            self._entries.move_to_end((account, key))
        return snapshot

    def _look(self, partition: int) -> "SingleFlight[Mark]":
        return SingleFlight(lambda: self._catalogue.mark(partition), LOOK_APART_S)

    def _partition(self, account: str) -> int:
        partition = self._partition_of.get(account)
        if partition is None:
            partition = self._partition_of[account] = self._topic.partition_of(account)
        return partition


def now() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def covers(positions: Mapping[int, int], wanted: Mapping[int, int]) -> bool:
    """Return whether every offset before `wanted` is before `positions`."""
    return all(positions.get(partition, -1) >= offset for partition, offset in wanted.items())


def _is_fresh(entry: CachedSnapshot, mark: Mark) -> bool:
    """Return whether the snapshot is of this state of the catalogue, and its votes are recent enough."""
    return entry.seen == mark and asyncio.get_running_loop().time() < entry.fresh_until


def _later(one: Mapping[int, int], other: Mapping[int, int]) -> Mapping[int, int]:
    """Return the later position of each partition."""
    return {each: max(one.get(each, 0), other.get(each, 0)) for each in one.keys() | other.keys()}


def _snapshot(account: str, config: ContestRecords) -> Snapshot | None:
    """Return a contest without its counts, None if it does not exist."""
    contest, shown = contest_of(account, config), as_closed(config)
    if contest is None or config.contest is None or shown.contest is None:
        return None
    return Snapshot(
        account=account,
        contest=contest,
        stored=config.contest,
        record=ContestRecord.model_validate(shown.contest.document),
        sources=sources_of(config),
        config=config,
        named=shown.participants,
        show=Show.model_validate(show_in_force(config)),
        phase=contest.phase(now()),
        updated=max(each.updated for each in (config.contest, *config.participants)),
        corrections=corrections(config),
    )


def _counted(snapshot: Snapshot, sums: ContestSums) -> Snapshot:
    """Return the snapshot with the current counts, and with the responses that the former one had cached."""
    phase = snapshot.contest.phase(now())
    counted = replace(snapshot, counts=sums.counts, parts=sums.parts, phase=phase, answers={})
    for render in snapshot.answers:
        counted.answer(render)
    return counted
