"""The AsyncAPI document describes exactly the events that the codecs accept."""

import json
import re
from typing import get_args

import pytest

from libs.contracts.asyncapi import EVENTS, Access, asyncapi_document
from libs.contracts.catalogue_events import CatalogueEvent
from libs.contracts.codec import OldEvent, vote_codec
from libs.contracts.member_descriptions import MEMBERS
from libs.contracts.purchase_events import PurchasesEvent
from libs.tally.events import Event, Fence

DOCUMENT = asyncapi_document("tally", 16, "0.1.0")


@pytest.mark.parametrize(
    ("channel", "union"),
    [("votes", Event | OldEvent), ("catalogue", CatalogueEvent), ("purchases", PurchasesEvent)],
)
def test_a_channel_has_a_message_for_every_event_of_its_union(channel: str, union: object) -> None:
    described = DOCUMENT["channels"][channel]
    names = {event.__name__ for event in get_args(union)}
    assert described["address"] == f"tally.{channel}"
    assert described["messages"].keys() == names
    listed = [message["$ref"] for message in DOCUMENT["operations"][channel]["messages"]]
    assert set(listed) == {f"#/channels/{channel}/messages/{name}" for name in names}
    for name in names:
        message = DOCUMENT["components"]["messages"][name]
        assert message["name"] == name
        assert message["summary"]
        assert message["payload"]["$ref"].rpartition("/")[2] in DOCUMENT["components"]["schemas"]


def test_every_member_of_every_event_is_described() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    members = {
        f"{name}.{member}": each
        for name, schema in schemas.items()
        for member, each in schema["properties"].items()
    }
    assert len(members) > 200
    assert [name for name, member in members.items() if not member.get("description")] == []
    assert members["PurchaseCast.key"]["description"] != members["RecordCreated.key"]["description"]


def test_members_are_described_that_events_have() -> None:
    """A description that its log's events do not need is left over."""
    for channel, union in EVENTS.items():
        named = {member for schema in union.json_schema()["$defs"].values() for member in schema["properties"]}
        assert MEMBERS[channel].keys() <= named


def test_every_reference_leads_somewhere() -> None:
    for reference in re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(DOCUMENT)):
        found = DOCUMENT
        for step in reference.split("/"):
            found = found[step]


def test_a_schemas_members_are_what_an_event_is_written_with() -> None:
    written = vote_codec.encode(Fence(5))
    properties = DOCUMENT["components"]["schemas"]["Fence"]["properties"]
    assert all(f'"{member}"'.encode() in written for member in properties)
    assert properties["type"]["const"] == "Fence.2"


@pytest.mark.parametrize(
    ("access", "protocol", "kind"),
    [
        (Access(), "kafka", None),
        (Access("SASL_PLAINTEXT", "PLAIN"), "kafka", "plain"),
        (Access("SASL_SSL", "SCRAM-SHA-512"), "kafka-secure", "scramSha512"),
        (Access("SSL"), "kafka-secure", None),
    ],
)
def test_the_server_has_the_security_of_the_deployment_and_no_address(
    access: Access, protocol: str, kind: str | None
) -> None:
    document = asyncapi_document("tally", 16, "0.1.0", access)
    server = document["servers"]["log"]
    assert (server["host"], server["protocol"]) == ("{brokers}", protocol)
    schemes = document["components"]["securitySchemes"]
    named = [each["$ref"].rpartition("/")[2] for each in server.get("security", [])]
    assert [schemes[name]["type"] for name in named] == ([] if kind is None else [kind])
