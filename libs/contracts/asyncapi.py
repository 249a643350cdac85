"""Builds the AsyncAPI document of the log: its topics and every event in them."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

from faststream.kafka import KafkaBroker
from faststream.specification import AsyncAPI
from pydantic import Field

from libs.contracts.catalogue_events import CatalogueEvent
from libs.contracts.purchase_events import PurchasesEvent
from libs.contracts.topics import Topic, catalogue_topic, purchases_topic, votes_topic
from libs.contracts.upcasters import OldEvent
from libs.tally.events import Event

ORDER: Final = ("votes", "catalogue", "purchases")
"""The order of the topics in the document."""
TITLE: Final = "Tallykeeper's log"
DESCRIPTION: Final = (
    "The topics are the source of truth: every count, limit and record in the API is folded from them. "
    "Records are JSON; `type` names the event. The first record of each partition is LogCreated. "
    "Deprecated events are old versions: they stay readable and are no longer written."
)


def asyncapi_document(namespace: str, partitions: int, version: str) -> dict[str, Any]:
    """Return an AsyncAPI 3.0 document; its payload schemas derive from the unions that the codecs decode."""
    broker = KafkaBroker("kafka:9092", protocol="kafka", consumer_only=True, allow_auto_create_topics=False)

    async def votes(event: Annotated[Event | OldEvent, Field(discriminator="type")]) -> None: ...

    async def catalogue(event: Annotated[CatalogueEvent, Field(discriminator="type")]) -> None: ...

    async def purchases(event: Annotated[PurchasesEvent, Field(discriminator="type")]) -> None: ...

    topic = votes_topic(namespace, partitions)
    _describe(broker, topic, "Votes, keyed by voter pseudonym, and fences.", votes)
    _describe(broker, catalogue_topic(namespace), "Records and API keys, keyed by account.", catalogue)
    topic = purchases_topic(namespace, partitions)
    _describe(broker, topic, "Purchases and their outcomes, keyed by the HMAC of the purchase token.", purchases)
    specification = AsyncAPI(broker, title=TITLE, description=DESCRIPTION, version=version).to_specification()
    document: dict[str, Any] = specification.to_jsonable()
    for part in ("channels", "operations"):  # FastStream keeps subscribers in a set.
        document[part] = {name: document[part][name] for name in ORDER}
    for part, found in document["components"].items():
        document["components"][part] = dict(sorted(found.items()))
    return document


def _describe(
    broker: KafkaBroker, topic: Topic, description: str, handler: Callable[..., Awaitable[None]]
) -> None:
    """Add a subscriber that is never started; the projector consumes `topic` with its own, in raw batches."""
    name = topic.name.rpartition(".")[2]
    about = f"{topic.partitions} partitions. {description}"
    broker.subscriber(topic.name, title=name, description=about)(handler)
