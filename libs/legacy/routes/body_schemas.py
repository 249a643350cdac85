"""Schemas of legacy request bodies, derived for each media type from one table of parameters."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from libs.catalogue.schemas.base import or_null
from libs.legacy.parameters.translator import JsonSchema
from libs.legacy.routes.parameter_parsing import BOOLEANS, FORMS, plain
from libs.web.form_schemas import about, integer_text, json_text
from libs.web.openapi import COMPONENT

MULTIPART: Final = "multipart/form-data"


def request_body(
    name: str, parameters: Mapping[str, JsonSchema], required: Sequence[str], kinds: Sequence[str]
) -> JsonSchema:
    """Return the request body of an operation that writes a `name`, in each of its media types (`kinds`)."""
    component = f"schemas/legacy.{name}"
    exact = {each: _shared(f"{component}.{each}", schema) for each, schema in parameters.items()}
    whole = f"{component}.complete" if required else component
    content = {}
    for kind in kinds:
        if kind not in FORMS:
            described = _object(whole, exact, required) | {"properties": _nullable(exact, required)}
        else:
            texts = {
                each: _text(schema, may_be_empty=each not in required)
                for each, schema in exact.items()
                if kind == MULTIPART or schema.get("format") != "binary"
            }
            suffix = "form" if texts.keys() == exact.keys() else "fields"
            described = _object(f"{whole}.{suffix}", texts, required)
        content[kind] = {"schema": described}
    return {"content": content, "required": bool(required) or "application/json" not in kinds}


def _object(component: str, properties: Mapping[str, JsonSchema], required: Sequence[str]) -> JsonSchema:
    described: JsonSchema = {COMPONENT: component, "type": "object", "properties": dict(properties)}
    return described | ({"required": list(required)} if required else {})


def _shared(component: str, schema: JsonSchema) -> JsonSchema:
    """Return the schema for JSON and forms: optional members also accept null.

    Schemas with members become components, to which forms refer.
    """
    exact: JsonSchema = _with_nulls(schema)
    return {COMPONENT: component} | exact if "properties" in orjson.dumps(exact).decode() else exact


def _nullable(properties: Mapping[str, JsonSchema], required: Sequence[str]) -> JsonSchema:
    return {name: schema if name in required else _or_null(schema) for name, schema in properties.items()}


def _or_null(schema: JsonSchema) -> JsonSchema:
    return {"anyOf": [schema, {"type": "null"}]} if COMPONENT in schema else or_null(schema)


def _with_nulls(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_with_nulls(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    walked = {name: _with_nulls(each) for name, each in schema.items()}
    if isinstance(walked.get("properties"), dict):
        walked["properties"] = _nullable(walked["properties"], walked.get("required", ()))
    return walked


def _text(schema: JsonSchema, *, may_be_empty: bool) -> JsonSchema:
    """Return the schema of a member's text in a form. An empty text is null, except for plain texts."""
    described = about(schema)
    match plain(schema).get("type"):
        case "string":
            return _string(schema, may_be_empty=may_be_empty)
        case "boolean":
            return described | {"type": "string", "enum": [*BOOLEANS, *([""] if may_be_empty else [])]}
        case "integer":
            return described | integer_text(schema, may_be_empty=may_be_empty)
        case "object":
            return described | json_text(schema, "object", "null", may_be_empty=may_be_empty)
        case "array":
            description = f"{described.get('description', '')} JSON text of the list, or a field for each item."
            return {"description": description.strip()} | _list(schema, may_be_empty=may_be_empty)
    raise ValueError(f"no form has {schema}")


def _string(schema: JsonSchema, *, may_be_empty: bool) -> JsonSchema:
    if not may_be_empty or schema.get("format") == "binary":
        return schema
    if "enum" in schema:
        return schema | {"enum": [*schema["enum"], ""]}
    if "format" in schema:
        rest = {name: value for name, value in schema.items() if name != "description"}
        return {"description": schema["description"], "anyOf": [rest, {"const": ""}]}
    return schema


def _list(schema: JsonSchema, *, may_be_empty: bool) -> JsonSchema:
    """Return the schema of a list in a form: JSON text, or a field for each item."""
    item = plain(schema)["items"]
    if "anyOf" in schema or item.get("type") == "string":
        one: JsonSchema = {"type": "string"}
        whole = one | {"contentMediaType": "application/json", "contentSchema": schema}
    else:
        one = json_text({"type": "object"}, "object")
        whole = json_text(schema, "array", "object", "null", may_be_empty=may_be_empty)
    return {"anyOf": [whole, {"type": "array", "items": one}]}
