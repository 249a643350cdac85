"""Reads quarantined records: the live views' quarantine, joined with the records in the log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiokafka import ConsumerRecord

from libs.contracts.log_records import Position
from libs.deployment.deployment import Deployment
from libs.kafka.reader import LogReader
from libs.monitoring.projection_names import Fold, folds_of
from libs.monitoring.quarantine import Drop, dropped, reasons_of
from libs.storage.store import Store, open_store
from libs.tally.time import timestamp
from libs.telemetry.progress import Progress
from libs.views.client import Valkey
from libs.views.functions import open_valkey
from libs.views.generations import Generations

FETCH_BYTES = 1_000
"""Size of a fetch; Kafka returns the first batch whole, even if it is larger."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A record that could not be folded, the reason, and the decision never to fold it (None: undecided)."""

    fold: Fold
    partition: int
    position: Position
    """Position of the view, with the id of its log."""
    reason: str
    drop: Drop | None
    record: "ConsumerRecord[bytes, bytes]"

    @property
    def value(self) -> bytes:
        return self.record.value or b""

    @property
    def where(self) -> str:
        """Fold, partition and offset, as arguments of the commands."""
        return f"{self.fold} {self.partition} {self.record.offset}"

    @property
    def appended(self) -> str:
        return timestamp(self.record.timestamp * 1000) or ""


class QuarantineReader:
    """Reads the quarantine of any fold. Raises `LogUnavailable`, `ViewsUnavailable` and `StorageUnavailable`."""

    def __init__(self, valkey: Valkey, reader: LogReader, store: Store, folds: dict[Fold, Generations]) -> None:
        self.store = store
        self.folds = folds
        self._valkey = valkey
        self._reader = reader

    async def find(self, fold: Fold, partition: int, offset: int) -> Quarantined | None:
        """Return the record, or None if it is not in quarantine."""
        found = await self._read(fold, partition, offset)
        return next(iter(found), None)

    async def all_of(self, fold: Fold, progress: Progress) -> list[Quarantined]:
        """Return all quarantined records, including dropped ones, by partition and offset."""
        found = []
        for partition in range(self.folds[fold].topic.partitions):
            found += await self._read(fold, partition, None, progress)
        return found

    async def _read(
        self, fold: Fold, partition: int, only: int | None, progress: Progress | None = None
    ) -> list[Quarantined]:
        views = self.folds[fold]
        live = (await views.read(partition)).live
        reasons = await reasons_of(self._valkey, views, partition, live.number)
        wanted = sorted(offset for offset in reasons if only in (None, offset))
        if not wanted or live.position is None:
            return []
        drops = await dropped(self.store, views.topic.name, partition, live.position)
        found = []
        for offset in wanted:
            record = await self._reader.whole_record(views.topic.name, partition, offset)
            drop = drops.get(offset)
            found.append(Quarantined(fold, partition, live.position, reasons[offset], drop, record))
            if progress is not None:
                progress.advance(1)
        return found


@asynccontextmanager
async def open_quarantine(stack: Deployment) -> AsyncIterator[QuarantineReader]:
    valkey = open_valkey(stack.valkey)
    try:
        async with LogReader(stack.kafka_settings, fetch_bytes=FETCH_BYTES) as reader:
            folds = folds_of(valkey, stack.namespace, stack.partitions)
            yield QuarantineReader(valkey, reader, open_store(stack.storage_url), folds)
    finally:
        await valkey.close()
