"""`tally log --audit`: who wrote to the catalogue, and what operators did, from the catalogue's log."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, assert_never

from libs.contracts.actors import Actor
from libs.contracts.catalogue import (
    CatalogueEvent,
    ContestClosing,
    KeyIssued,
    KeyRevoked,
    OperatorActed,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
    RecordsWritten,
    catalogue_codec,
)
from libs.contracts.codec import Undecodable
from libs.contracts.topics import catalogue_topic
from libs.kafka.log import Extent, LogReader
from libs.tally.errors import timestamp
from libs.tally.events import LogCreated
from services.operations.connect import Stack
from services.operations.history.merging import merged


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """By the id of a key and by account; appended in [since, until). None: all."""

    key: str | None = None
    account: str | None = None
    since_ms: int = 0
    until_ms: int | None = None

    def has(self, time_ms: int, event: CatalogueEvent) -> bool:
        if time_ms < self.since_ms:
            return False
        actor = actor_of(event)
        if self.key is not None and (actor is None or (actor.kind, actor.name) != ("key", self.key)):
            return False
        return self.account is None or getattr(event, "account", None) == self.account


async def read_audit(stack: Stack, namespace: str, wanted: AuditFilter) -> AsyncIterator[dict[str, Any]]:
    """A row an event, in the order of their append times; what is in quarantine is left out."""
    topic = catalogue_topic(namespace)
    partitions = range(topic.partitions)
    async with LogReader(stack.kafka_settings) as reader:
        await reader.log_ids(topic.name, partitions)
        starts = await reader.offsets_from(topic.name, partitions, wanted.since_ms)
        ends = await reader.end_offsets(topic.name, partitions)
        if wanted.until_ms is not None:
            ends = await reader.offsets_from(topic.name, partitions, wanted.until_ms)
        extents = {p: Extent(starts[p], ends[p]) for p in partitions if starts[p] < ends[p]}
        async with aclosing(merged(reader, topic.name, extents, catalogue_codec)) as entries:
            async for entry in entries:
                event = entry.event
                if isinstance(event, Undecodable | LogCreated):
                    continue
                if wanted.has(entry.record.timestamp_ms, event):
                    place = {"partition": entry.partition, "offset": entry.record.offset}
                    yield {"time": timestamp(entry.record.timestamp_ms * 1000), **place, **_row(event)}


def actor_of(event: CatalogueEvent) -> Actor | None:
    return None if isinstance(event, LogCreated) else event.actor


def as_line(row: dict[str, Any]) -> str:
    actor = row["actor"]
    who = "unknown" if actor is None else f"{actor['kind']} {actor['name']}"
    origin = f" from {actor['origin']}" if actor is not None and actor["origin"] else ""
    account = f" account={row['account']}" if row["account"] else ""
    what = " ".join(f"{name}={value}" for name, value in row["subject"].items())
    return f"{row['time']}  {who}{origin}  {row['action']}{account} {what}".rstrip()


def _row(event: CatalogueEvent) -> dict[str, Any]:
    actor = actor_of(event)
    shown = None if actor is None else {"kind": actor.kind, "name": actor.name, "origin": actor.origin}
    action = event.action if isinstance(event, OperatorActed) else event.type
    return {
        "actor": shown,
        "action": action,
        "account": getattr(event, "account", None),
        "subject": _subject(event),
    }


def _subject(event: CatalogueEvent) -> dict[str, str]:
    """What it was done to; never a record's content."""
    match event:
        case RecordCreated() | RecordChanged() | RecordDeleted():
            return {"resource": event.resource, "key": event.key}
        case RecordsWritten():
            names = [f"{write.resource}/{write.key}" for write in event.writes]
            return {"records": ",".join(names)}
        case ContestClosing():
            return {"resource": "contests", "key": event.contest}
        case KeyIssued():
            permissions = ",".join(event.permissions)
            return {"key_id": event.key_id, "permissions": permissions, "name": event.rules.name}
        case KeyRevoked():
            return {"key_id": event.key_id}
        case OperatorActed():
            return event.arguments
        case LogCreated():
            return {}
    assert_never(event)
