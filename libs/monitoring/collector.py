"""Collects the status: positions of the views compared with the log's end offsets and append times, and tasks."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from libs.certificates.service import Sealed, sealed_contests
from libs.contracts.topics import purchases_topic
from libs.contracts.votes_log import VotesLog, votes_log
from libs.kafka.reader import LogReader
from libs.monitoring.lag import AppendTimes, LagTracker, ProjectionName, TimeAt, View, projections_of
from libs.monitoring.quarantine import count_among, count_of, dropped
from libs.monitoring.status import (
    Ledger,
    OpenPurchase,
    OtherGeneration,
    PartitionRow,
    ProcessStatus,
    Status,
)
from libs.storage.object_store import Store
from libs.tally.errors import ViewsUnavailable
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.generations.generations import Generations, PartitionGenerations
from libs.views.purchases.purchase_views import PurchaseViews, Todo, Unreadable
from libs.views.valkey.client import Valkey
from libs.views.votes.reply_types import PartitionState
from libs.views.votes.vote_views import VoteViews
from libs.web.server.tls import public_authorities

SEALED_EVERY_S: Final = 30.0


class StatusCollector:
    """Collects statuses repeatedly: rates and stalls need the previous observation."""

    def __init__(
        self, reader: LogReader, valkey: Valkey, store: Store, namespace: str, partitions: int | VotesLog
    ) -> None:
        """`partitions`: of the votes, or their log; then `reader` must place it."""
        votes = votes_log(namespace, partitions)
        self._reader = reader
        self._valkey = valkey
        self._views = VoteViews(valkey, namespace, votes)
        self._projections = projections_of(valkey, namespace, votes)
        self._times = {
            projection: AppendTimes(reader, views.topic.name) for projection, views in self._projections.items()
        }
        self._store = store
        self._records = CatalogueViews(valkey, namespace)
        self._known_sealed: Sequence[Sealed] = ()
        self._listed = -SEALED_EVERY_S
        self._purchases = PurchaseViews(valkey, namespace, purchases_topic(namespace, votes.begun_with))
        self._progress = LagTracker()

    async def collect(self, parts: Sequence[ProcessStatus] = ()) -> Status:
        """Return the status, with `parts` included.

        Raises `LogUnavailable`, `LogChanged`, `ViewsUnavailable` and `StorageUnavailable`.
        """
        rows = await asyncio.gather(*map(self.rows, self._projections))
        every = [row for of_one in rows for row in of_one]
        return Status(_now(), every, parts, await self._sealed())

    async def _sealed(self) -> Sequence[Sealed]:
        """Return the sealed contests, cached for `SEALED_EVERY_S` as listing a bucket is expensive, and for as
        long as the catalogue cannot be read."""
        if time.monotonic() > self._listed + SEALED_EVERY_S:
            with suppress(ViewsUnavailable):
                self._known_sealed = await sealed_contests(self._store, self._records)
                self._listed = time.monotonic()
        return self._known_sealed

    async def rows(self, projection: ProjectionName) -> list[PartitionRow]:
        """Return the rows of a projection's partitions. Raises as `collect`.

        Reads ends after positions, so that no view of this log appears to be past its end, or less behind.
        """
        views = self._projections[projection]
        generations = await views.read_all()
        partitions = list(generations)
        ledgers = await self._ledgers(partitions) if projection is ProjectionName.VOTES else {}
        todo = await self._todo(partitions) if projection is ProjectionName.PURCHASES else {}
        quarantines = await asyncio.gather(*(self._quarantine(views, *each) for each in generations.items()))
        ends = await self._reader.end_offsets(views.topic.name, partitions)
        now = _now()
        times = await self._times[projection].read(
            TimeAt(partition, offset)
            for partition, of_one in generations.items()
            for position in [_offset(of_one)]
            for offset in (position - 1, position, todo[partition].offset if partition in todo else -1)
            if 0 <= offset < ends[partition]
        )
        rows = []
        for (partition, of_one), (quarantined, dropped_ones) in zip(generations.items(), quarantines, strict=True):
            position = _offset(of_one)
            first = times.get(TimeAt(partition, position))
            view = View(projection, partition, of_one.live.number)
            lag = self._progress.observe(view, position, now, first)
            rows.append(
                PartitionRow(
                    projection=projection,
                    partition=partition,
                    generation=of_one.live.number,
                    position=position,
                    end=ends[partition],
                    lag_s=lag.seconds,
                    last_event=times.get(TimeAt(partition, position - 1)),
                    stalled_since=lag.stalled_since,
                    quarantined=quarantined,
                    dropped=dropped_ones,
                    schema=of_one.live.schema,
                    code_schema=of_one.schema,
                    generations=self._others(projection, partition, of_one, now),
                    ledger=ledgers.get(partition),
                    processed_per_s=lag.processed_per_s,
                    oldest_open=_oldest_open(todo.get(partition), times, partition, now),
                )
            )
        return rows

    async def _todo(self, partitions: Sequence[int]) -> dict[int, Todo]:
        """Return the oldest open purchase of each partition; empty if the views are unavailable."""
        try:
            pages = await asyncio.gather(*(self._purchases.todo(partition, -1, 1) for partition in partitions))
        except ViewsUnavailable:
            return {}
        return {partition: page[0] for partition, page in zip(partitions, pages, strict=True) if page}

    async def _ledgers(self, partitions: Sequence[int]) -> dict[int, Ledger]:
        asked = time.time()
        states = await asyncio.gather(*map(self._views.state, partitions))
        answered = time.time()
        ledgers = [ledger_of(state, asked, answered) for state in states]
        return dict(zip(partitions, ledgers, strict=True))

    def _others(
        self, projection: ProjectionName, partition: int, generations: PartitionGenerations, now: int
    ) -> list[OtherGeneration]:
        found = []
        for number, one in sorted(generations.others.items()):
            position = generations.offset_of(number)
            rate = self._progress.observe(View(projection, partition, number), position, now).processed_per_s
            behind = _offset(generations) - position
            since = None if one.kept_since is None else one.kept_since * 1000
            found.append(OtherGeneration(number, one.state, position, behind, rate, since))
        return found

    async def _quarantine(
        self, views: Generations, partition: int, generations: PartitionGenerations
    ) -> tuple[int, int]:
        """Return the numbers of open and of dropped records; reads the object store only if there are any."""
        live = generations.live
        rows = self._valkey, views, partition, live.number
        count = await count_of(*rows)
        if not count:
            return 0, 0
        drops = await dropped(self._store, views.topic.name, partition, live.position)
        held = await count_among(*rows, drops)
        return count - held, held


def ledger_of(state: PartitionState, asked: float, answered: float) -> Ledger:
    """`asked` and `answered` are this process's times (s since 1970) around the call; clocks in between match."""
    oldest, now = state.oldest_pending, state.now / 1_000_000
    return Ledger(
        open=state.open,
        incarnation=state.incarnation,
        pending=state.pending,
        oldest_pending_s=None if oldest is None else max(0, state.now - oldest) / 1_000_000,
        fenced=state.fenced,
        duplicates=state.duplicates,
        overruled=state.overruled,
        valkey_clock_off_s=now - min(max(now, asked), answered),
        clock_ahead_s=max(0, state.clock - state.now) / 1_000_000,
    )


def _oldest_open(todo: Todo | None, times: Mapping[TimeAt, int], partition: int, now: int) -> OpenPurchase | None:
    if todo is None:
        return None
    since = times.get(TimeAt(partition, todo.offset), now)
    unreadable = todo.purchase.reason if isinstance(todo.purchase, Unreadable) else ""
    return OpenPurchase(todo.offset, max(0, now - since) / 1000, unreadable)


def _offset(generations: PartitionGenerations) -> int:
    return generations.offset_of(generations.live.number)


def _now() -> int:
    return time.time_ns() // 1_000_000


TIMEOUT_S: Final = 2.0
PART_UP: Final = "tally_projector_part_up"


async def failing_tasks(metrics_urls: Iterable[str]) -> list[str]:
    """Return the sorted names of failing tasks; unreachable processes report none."""
    found = await asyncio.gather(*map(_failing, metrics_urls))
    return sorted({name for names in found for name in names})


async def _failing(metrics_url: str) -> list[str]:
    import httpx  # noqa: PLC0415 (delays the start)

    try:
        async with httpx.AsyncClient(verify=public_authorities(), timeout=TIMEOUT_S, trust_env=False) as client:
            answer = (await client.get(metrics_url)).raise_for_status()
        families = list(text_string_to_metric_families(answer.text))
    except (httpx.HTTPError, ValueError):
        return []
    samples = [sample for family in families for sample in family.samples]
    return [one.labels["part"] for one in samples if one.name == PART_UP and one.value == 0]
