"""Quarantined records in the views, and operators' decisions to drop them.

Decisions are stored in the object store, so that they outlive every view. Like the log and the secrets, they are
part of a backup.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any, Final

import orjson
from aiokafka import ConsumerRecord

from libs.contracts.catalogue_events import catalogue_codec
from libs.contracts.codec import Codec, Undecodable, vote_codec
from libs.contracts.log_records import Position
from libs.contracts.ndjson_codec import HIDDEN
from libs.contracts.purchase_events import purchases_codec
from libs.deployment.deployment import Deployment
from libs.storage.object_store import Store
from libs.tally.errors import TallyError
from libs.tally.time_conversion import timestamp
from libs.views.generations.generations import Generations, ProjectionName
from libs.views.valkey.client import Valkey
from libs.views.votes.votes_apply_items import POISON, UNKNOWN, fold_item

PREFIX: Final = "quarantine"
CODECS: Final[dict[ProjectionName, Codec[Any]]] = {
    ProjectionName.PURCHASES: purchases_codec,
    ProjectionName.CATALOGUE: catalogue_codec,
    ProjectionName.TEST: catalogue_codec,
}
PAGE: Final = 500
"""Approximate number of quarantined records read by one call."""


@dataclass(frozen=True, slots=True)
class Drop:
    """One decision, made at `dropped_at` (RFC 3339); `log_id` and `sha256` (of its bytes) identify the record."""

    topic: str
    partition: int
    offset: int
    log_id: str
    sha256: str
    quarantined_for: str
    dropped_at: str
    reason: str | None = None

    @property
    def name(self) -> str:
        """Name of the object."""
        return name_of(self.topic, self.partition, self.offset)


def name_of(topic: str, partition: int, offset: int) -> str:
    return f"{PREFIX}/{topic}/{partition}/{offset}.json"


class DroppedAnother(TallyError):
    """A record of an earlier log was dropped under the same name."""

    code = "conflict"


async def keep(store: Store, drop: Drop) -> Drop:
    """Store and return the decision, or an earlier one. Raises `DroppedAnother` and `StorageUnavailable`."""
    held = Drop(**orjson.loads(await store.get_or_put(drop.name, lambda: orjson.dumps(asdict(drop)))))
    if (held.log_id, held.sha256) != (drop.log_id, drop.sha256):
        raise DroppedAnother(
            f"A record of another log was dropped under this name. Delete {drop.name} from the object store, and "
            "drop this one again."
        )
    return held


async def dropped(store: Store, topic: str, partition: int, position: Position | None) -> dict[int, Drop]:
    """Return the drops, by offset, of the log that the view at `position` was folded from.

    Raises `StorageUnavailable`.
    """
    if position is None:
        return {}
    found = {}
    for name in await store.names(f"{PREFIX}/{topic}/{partition}"):
        value = await store.get(name)
        if value is not None and (drop := Drop(**orjson.loads(value))).log_id == position.log_id:
            found[drop.offset] = drop
    return found


async def count_of(valkey: Valkey, views: Generations, partition: int, generation: int) -> int:
    """Return the number of quarantined records of a generation, without reading them."""
    found: int = await valkey.call("HLEN", _rows(views, partition, generation))
    return found


async def count_among(
    valkey: Valkey, views: Generations, partition: int, generation: int, offsets: Collection[int]
) -> int:
    """Return how many of the records at these offsets are quarantined."""
    if not offsets:
        return 0
    found = await valkey.call("HMGET", _rows(views, partition, generation), *offsets)
    return sum(reason is not None for reason in found)


async def reasons_of(valkey: Valkey, views: Generations, partition: int, generation: int) -> dict[int, str]:
    """Return the reason of each quarantined record of a generation, by offset, read in short calls."""
    found: dict[int, str] = {}
    cursor = b"0"
    while True:
        key = _rows(views, partition, generation)
        cursor, flat = await valkey.call("HSCAN", key, cursor, "COUNT", PAGE)
        rows = zip(flat[::2], flat[1::2], strict=True)
        found |= {int(offset): reason.decode(errors="replace") for offset, reason in rows}
        if cursor == b"0":
            return found


def _rows(views: Generations, partition: int, generation: int) -> str:
    return f"{views.base(partition)}:g{generation}:quarantine"


class CouldBeProcessed(TallyError):
    """The record cannot be dropped: the next replay processes it."""

    code = "conflict"


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
    def dropped(self) -> dict[str, str | None] | None:
        return None if self.drop is None else {"at": self.drop.dropped_at, "reason": self.drop.reason}

    def value(self) -> bytes:
        return self.record.value or b""

    def where(self) -> str:
        """Return topic, partition and offset, as arguments of the commands."""
        return f"{self.topic} {self.partition} {self.offset}"

    def reason_now(self) -> str | None:
        """Decode the record again, and return why this version cannot process it either; None if it can."""
        if self.topic is ProjectionName.VOTES:
            kind, *rest = fold_item(vote_codec.decode(self.value()), self.record.offset, self.record.timestamp)
            return str(rest[-1]) if kind in (POISON, UNKNOWN) else None
        event = CODECS[self.topic].decode(self.value())
        return event.reason if isinstance(event, Undecodable) else None

    def require_unprocessable(self) -> None:
        """Raise `CouldBeProcessed` if nobody has dropped the record and this version can process it."""
        if self.drop is None and self.reason_now() is None:
            raise CouldBeProcessed(
                f"This version can process {self.where()}, so the next replay will process it. "
                f"`tally quarantine retry --topic {self.topic}` processes it now."
            )

    async def dropped_for(self, reason: str | None, store: Store) -> "Quarantined":
        """Decide now never to process the record. Raises as `keep`."""
        decision = Drop(
            topic=self.record.topic,
            partition=self.partition,
            offset=self.offset,
            log_id=self.position.log_id,
            sha256=sha256(self.value()).hexdigest(),
            quarantined_for=self.reason,
            dropped_at=timestamp(time.time_ns() // 1000) or "",
            reason=reason,
        )
        return replace(self, drop=await keep(store, decision))


async def read_quarantined(
    deployment: Deployment, only: ProjectionName | None, partition: int | None = None, offset: int | None = None
) -> list[Quarantined]:
    """Return the live views' quarantined records, including dropped ones, joined with those of the log.

    Raises `LogUnavailable`, `ViewsUnavailable` and `StorageUnavailable`.
    """
    deployment.progress.begin("Reading the log", None)
    found, reader = [], deployment.reader
    for topic, views in deployment.projections.items():
        for number in views.topic.numbers:
            if only not in (None, topic) or partition not in (None, number):
                continue
            live = (await views.read(number)).live
            reasons = await reasons_of(deployment.valkey, views, number, live.number)
            wanted = sorted(at for at in reasons if offset in (None, at))
            if not wanted or live.position is None:
                continue
            drops = await dropped(deployment.store, views.topic.name, number, live.position)
            for at in wanted:
                record = await reader.whole_record(views.topic.name, number, at)
                found.append(Quarantined(topic, number, live.position, reasons[at], drops.get(at), record))
                deployment.progress.advance(1)
    return found


def to_rebuild(processable: Iterable[Quarantined]) -> tuple[dict[ProjectionName, set[int]], list[Quarantined]]:
    """Return the partitions to rebuild, by topic, and the dropped records that prevent rebuilding others.

    To be rebuilt are those with an undecided record and without a dropped one: that would be processed, too.
    """
    records = list(processable)
    wanted = dict.fromkeys((record.topic, record.partition) for record in records if record.drop is None)
    forbidding = [
        record for record in records if record.drop is not None and (record.topic, record.partition) in wanted
    ]
    forbidden = {(record.topic, record.partition) for record in forbidding}
    partitions: dict[ProjectionName, set[int]] = {}
    for topic, partition in wanted:
        if (topic, partition) not in forbidden:
            partitions.setdefault(topic, set()).add(partition)
    return partitions, forbidding
