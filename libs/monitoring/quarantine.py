"""Quarantined records in the views, and operators' decisions to drop them.

Decisions are stored in the object store, so that they outlive every view. Like the log and the secrets, they are
part of a backup.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Final

import orjson

from libs.contracts.log_records import Position
from libs.storage.object_store import Store
from libs.tally.errors import TallyError
from libs.views.generations.generations import Generations
from libs.views.valkey.client import Valkey

PREFIX: Final = "quarantine"
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
