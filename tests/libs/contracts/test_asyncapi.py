"""The AsyncAPI document describes exactly the events that the codecs accept."""

from typing import get_args

import pytest

from libs.contracts.asyncapi import asyncapi_document
from libs.contracts.catalogue_events import CatalogueEvent
from libs.contracts.codec import vote_codec
from libs.contracts.upcasters import UPCASTS, OldEvent
from libs.tally.events import Event, Fence

DOCUMENT = asyncapi_document("tally", 16, "0.1.0")


@pytest.mark.parametrize(("channel", "union"), [("votes", Event | OldEvent), ("catalogue", CatalogueEvent)])
def test_a_channels_payload_is_every_event_of_its_union(channel: str, union: object) -> None:
    assert DOCUMENT["channels"][channel]["address"] == f"tally.{channel}"
    reference = DOCUMENT["components"]["messages"][f"{channel}:SubscribeMessage"]["payload"]["$ref"]
    payload = DOCUMENT["components"]["schemas"][reference.rpartition("/")[2]]
    named = {option["$ref"].rpartition("/")[2] for option in payload["oneOf"]}
    assert named == {event.__name__ for event in get_args(union)}


def test_a_schemas_members_are_what_an_event_is_written_with() -> None:
    written = vote_codec.encode(Fence(5))
    properties = DOCUMENT["components"]["schemas"]["Fence"]["properties"]
    assert all(f'"{member}"'.encode() in written for member in properties)
    assert properties["type"]["const"] == "Fence.2"


def test_old_versions_are_described_as_such() -> None:
    deprecated = {name for name, schema in DOCUMENT["components"]["schemas"].items() if schema.get("deprecated")}
    assert deprecated == {version.__name__ for version in UPCASTS}
