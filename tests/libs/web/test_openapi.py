"""Schemas of models in the OpenAPI document."""

from unittest.mock import patch

from pydantic import BaseModel

from libs.web.documents.openapi import json_schema, written


class Shop(BaseModel):
    title: str = ""


class Stall(BaseModel):
    title: str = ""


def test_a_caller_s_changes_to_a_schema_are_its_own() -> None:
    changed = json_schema(Shop)
    changed["properties"] = {}
    changed.pop("title")
    assert json_schema(Shop) == Shop.model_json_schema()
    written(Shop)["properties"]["title"]["type"] = "integer"
    assert json_schema(Shop) == Shop.model_json_schema()


def test_what_is_sent_and_what_is_read_have_schemas_of_their_own() -> None:
    assert json_schema(Shop, "serialization") == Shop.model_json_schema(mode="serialization")


def test_a_schema_is_generated_once_however_often_it_is_mentioned() -> None:
    with patch.object(Stall, "model_json_schema", wraps=Stall.model_json_schema) as generate:
        written(Stall)
        written(Stall)
    assert generate.call_count == 1
