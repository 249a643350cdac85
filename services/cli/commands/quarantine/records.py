"""Reads quarantined records: the live views' quarantine, joined with the records in the log."""

from dataclasses import dataclass, field

from aiokafka import ConsumerRecord

from libs.contracts.log_records import Position
from libs.contracts.ndjson_codec import HIDDEN
from libs.deployment.deployment import Deployment
from libs.monitoring.lag import ProjectionName, projections_of
from libs.monitoring.quarantine import Drop, dropped, reasons_of
from libs.tally.time_conversion import timestamp

FETCH_BYTES = 1_000
"""Size of a fetch; Kafka returns the first batch whole, even if it is larger."""


@dataclass(frozen=True, slots=True)
class DropInfo:
    """Time and reason of a record's drop."""

    at: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A record that could not be processed, the reason, and the decision never to process it (None: undecided)."""

    topic: ProjectionName
    partition: int
    position: Position = field(metadata=HIDDEN)
    """Position of the view, with the id of its log."""
    reason: str
    drop: Drop | None = field(metadata=HIDDEN)
    record: "ConsumerRecord[bytes, bytes]" = field(metadata=HIDDEN)

    @property
    def offset(self) -> int:
        return int(self.record.offset)

    @property
    def appended(self) -> str:
        return timestamp(self.record.timestamp * 1000) or ""

    @property
    def size(self) -> int:
        return len(self.value())

    @property
    def dropped(self) -> DropInfo | None:
        return None if self.drop is None else DropInfo(self.drop.dropped_at, self.drop.reason)

    def value(self) -> bytes:
        return self.record.value or b""

    def where(self) -> str:
        """Return topic, partition and offset, as arguments of the commands."""
        return f"{self.topic} {self.partition} {self.offset}"


class QuarantineReader:
    """Reads the quarantine of any projection.

    Raises `LogUnavailable`, `ViewsUnavailable` and `StorageUnavailable`.
    """

    def __init__(self, deployment: Deployment) -> None:
        self.projections = projections_of(deployment.valkey, deployment.namespace, deployment.votes)
        self._valkey = deployment.valkey
        self._store = deployment.store
        self._progress = deployment.progress
        self._reader = deployment.reader

    async def find(self, projection: ProjectionName, partition: int, offset: int) -> Quarantined | None:
        """Return the record, or None if it is not in quarantine."""
        found = await self._read(projection, partition, offset)
        return next(iter(found), None)

    async def all_of(self, projection: ProjectionName) -> list[Quarantined]:
        """Return all quarantined records, including dropped ones, by partition and offset."""
        found = []
        for partition in self.projections[projection].topic.numbers:
            found += await self._read(projection, partition, None)
        return found

    async def _read(self, projection: ProjectionName, partition: int, only: int | None) -> list[Quarantined]:
        views = self.projections[projection]
        live = (await views.read(partition)).live
        reasons = await reasons_of(self._valkey, views, partition, live.number)
        wanted = sorted(offset for offset in reasons if only in (None, offset))
        if not wanted or live.position is None:
            return []
        drops = await dropped(self._store, views.topic.name, partition, live.position)
        found = []
        for offset in wanted:
            record = await self._reader.whole_record(views.topic.name, partition, offset)
            drop = drops.get(offset)
            found.append(Quarantined(projection, partition, live.position, reasons[offset], drop, record))
            self._progress.advance(1)
        return found
