"""Builders of purchases' events with defaults, and a purchases log with its views on the real servers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgpack

from libs.contracts.purchase_events import (
    Purchase,
    PurchasedVotes,
    PurchaseEvent,
    PurchaseRecorded,
    PurchaseStatus,
    purchases_codec,
)
from libs.contracts.topics import Topic, purchases_topic
from libs.kafka.settings import KafkaSettings
from libs.kafka.writer import LogWriter
from libs.projection.projector import Projector
from libs.projection.record_projections import PurchasesProjection
from libs.projection.settings import PURCHASES, ProjectorSettings
from libs.views.purchases.purchase_views import PurchaseViews
from libs.views.valkey.function_loading import load_functions, open_valkey
from tests.support.servers.freshness import folding
from tests.support.servers.topics import new_topics

NOW_US = 1_790_000_000_000_000


def purchase_key(name: str) -> str:
    """Return a key of 22 characters, like the HMAC of a token."""
    return name.ljust(22, "-")


def a_purchase(name: str = "purchase", **changes: Any) -> PurchaseRecorded:
    """Build a purchase of three votes for p1 in contest c1, by the user u1 of account a1."""
    given: dict[str, Any] = {
        "account": "a1",
        "key": purchase_key(name),
        "at": NOW_US,
        "user": "u1",
        "sealed": "sealed",
        "kind": "vote",
        "vote": PurchasedVotes(contest_key="c1", participant_key="p1", count=3),
        "price": 199,
    }
    return PurchaseRecorded(**{**given, **changes})


@dataclass(frozen=True)
class FoldedPurchases:
    """A continuously folded log whose purchases no process casts."""

    topic: Topic
    log: LogWriter
    views: PurchaseViews

    async def append(self, *events: PurchaseEvent) -> None:
        for event in events:
            partition = self.topic.partition_of(event.key)
            await self.log.append(self.topic.name, partition, purchases_codec.encode(event))

    async def status(self, event: PurchaseEvent) -> PurchaseStatus | None:
        """Return the purchase's status in the view."""
        purchase = await self.views.get(event.account, event.key)
        return purchase.status if isinstance(purchase, Purchase) else None

    async def corrupt(self, event: PurchaseEvent) -> None:
        """Overwrite the event's purchase in the view with an invalid record."""
        valkey, partition = self.views.generations.valkey, self.topic.partition_of(event.key)
        [records] = await valkey.call("KEYS", f"{self.views.generations.base(partition)}:*records:{event.account}")
        unread = {"status": "recorded", "created": 1, "updated": 1, "offset": 1, "recorded": "no event"}
        await valkey.call("HSET", records, event.key, msgpack.packb(unread))


@asynccontextmanager
async def folded_purchases(
    kafka: str, valkey_address: str, namespace: str, partitions: int
) -> AsyncIterator[FoldedPurchases]:
    settings, topic = KafkaSettings(kafka_bootstrap_servers=kafka), purchases_topic(namespace, partitions)
    await new_topics(settings, [topic])
    valkey, log = open_valkey(valkey_address), LogWriter(settings)
    await load_functions(valkey)
    await log.start()
    views = PurchaseViews(valkey, namespace, topic)
    often = ProjectorSettings(projector_check_interval_ms=100)
    projector = Projector(PurchasesProjection(topic, views), settings, often, PURCHASES)
    try:
        async with folding(projector, views.fresh, partitions):
            yield FoldedPurchases(topic, log, views)
    finally:
        await log.stop()
        await valkey.close()
