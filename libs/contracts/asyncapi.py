"""Builds the AsyncAPI document of the log: its topics and a message for every event in them."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter

from libs.contracts.catalogue_events import CatalogueEvent
from libs.contracts.codec import OldEvent
from libs.contracts.member_descriptions import MEMBERS, OF_ALL
from libs.contracts.purchase_events import PurchasesEvent
from libs.contracts.topics import Topic, catalogue_topic, purchases_topic, votes_topic
from libs.tally.events import Event

TITLE: Final = "Tallykeeper's log"
DESCRIPTION: Final = (
    "The topics are the source of truth: every count, limit and record in the API is folded from them. "
    "Records are JSON; `type` names the event. The first record of each partition is LogCreated. "
    "Deprecated events are old versions: they stay readable and are no longer written."
)
_DOCSTRINGS: Final = ConfigDict(use_attribute_docstrings=True)
EVENTS: Final[dict[str, TypeAdapter[Any]]] = {
    "votes": TypeAdapter(Annotated[Event | OldEvent, Field(discriminator="type")], config=_DOCSTRINGS),
    "catalogue": TypeAdapter(Annotated[CatalogueEvent, Field(discriminator="type")], config=_DOCSTRINGS),
    "purchases": TypeAdapter(Annotated[PurchasesEvent, Field(discriminator="type")], config=_DOCSTRINGS),
}
"""What the codecs decode, by the last part of the topic's name, in the order of the document."""
KEYS: Final = {
    "votes": "Votes, keyed by voter pseudonym, and fences.",
    "catalogue": "Records and API keys, keyed by account.",
    "purchases": "Purchases and their outcomes, keyed by the HMAC of the purchase token.",
}
SCHEMAS: Final = "#/components/schemas/"
SECURITY: Final = "#/components/securitySchemes/"
SASL: Final = {"PLAIN": "plain", "SCRAM-SHA-256": "scramSha256", "SCRAM-SHA-512": "scramSha512"}
"""AsyncAPI's types of security by Kafka's mechanisms."""
BROKERS: Final = {
    "brokers": {
        "description": "TALLY_KAFKA_BOOTSTRAP_SERVERS of the deployment. Its operators name it, and give a user "
        "that may read the topics."
    }
}


class Access(NamedTuple):
    """How clients connect to the log, as in Kafka's own settings; `mechanism` is used by the SASL protocols."""

    protocol: str = "PLAINTEXT"
    mechanism: str = "PLAIN"

    @property
    def server(self) -> dict[str, Any]:
        is_encrypted = self.protocol in ("SSL", "SASL_SSL")
        server = {
            "host": "{brokers}",
            "protocol": "kafka-secure" if is_encrypted else "kafka",
            "variables": BROKERS,
        }
        return server | ({"security": [{"$ref": f"{SECURITY}sasl"}]} if self.schemes else {})

    @property
    def schemes(self) -> dict[str, Any]:
        return {"sasl": {"type": SASL[self.mechanism]}} if self.protocol.startswith("SASL") else {}


UNSECURED: Final = Access()


def asyncapi_document(namespace: str, partitions: int, version: str, access: Access = UNSECURED) -> dict[str, Any]:
    """Return an AsyncAPI 3.0 document; its payload schemas derive from the unions that the codecs decode.

    It does not name the brokers, as everybody may read it.
    """
    topics = {
        "votes": votes_topic(namespace, partitions),
        "catalogue": catalogue_topic(namespace),
        "purchases": purchases_topic(namespace, partitions),
    }
    unions = {name: union.json_schema(ref_template=SCHEMAS + "{model}") for name, union in EVENTS.items()}
    for channel, union in unions.items():
        _describe(union["$defs"], {**OF_ALL, **MEMBERS[channel]})
    schemas = {name: schema for union in unions.values() for name, schema in union["$defs"].items()}
    events = {
        channel: [option["$ref"].removeprefix(SCHEMAS) for option in union["oneOf"]]
        for channel, union in unions.items()
    }
    names = sorted({name for found in events.values() for name in found})
    return {
        "asyncapi": "3.0.0",
        "info": {"title": TITLE, "version": version, "description": DESCRIPTION},
        "defaultContentType": "application/json",
        "servers": {"log": access.server},
        "channels": {name: _channel(topics[name], KEYS[name], events[name]) for name in EVENTS},
        "operations": {name: _operation(name, events[name]) for name in EVENTS},
        "components": {
            "securitySchemes": access.schemes,
            "messages": {name: _message(name, schemas[name]) for name in names},
            "schemas": dict(sorted(schemas.items())),
        },
    }


def _describe(schemas: dict[str, Any], members: Mapping[str, str]) -> None:
    """Describe the members that have no docstring of their own in their class."""
    for schema in schemas.values():
        for name, member in schema["properties"].items():
            if "description" not in member:
                member["description"] = members[name]


def _channel(topic: Topic, description: str, events: list[str]) -> dict[str, Any]:
    return {
        "address": topic.name,
        "description": f"{topic.partitions} partitions. {description}",
        "servers": [{"$ref": "#/servers/log"}],
        "messages": {event: {"$ref": f"#/components/messages/{event}"} for event in events},
        "bindings": {"kafka": {"topic": topic.name, "bindingVersion": "0.5.0"}},
    }


def _operation(channel: str, events: list[str]) -> dict[str, Any]:
    return {
        "action": "receive",
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": [{"$ref": f"#/channels/{channel}/messages/{event}"} for event in events],
    }


def _message(event: str, schema: dict[str, Any]) -> dict[str, Any]:
    summary = " ".join(str(schema.get("description", "")).partition("\n\n")[0].split())
    return {"name": event, "title": event, "summary": summary, "payload": {"$ref": f"{SCHEMAS}{event}"}}
