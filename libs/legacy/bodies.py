"""Bodies of legacy writes, JSON or forms: parsing by the table of parameters, and their documentation."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.types import Message

from libs.catalogue.schemas.base import or_null
from libs.concurrency.turns import off_loop
from libs.contracts.limits import FORM_FIELDS
from libs.legacy.translator import JsonSchema
from libs.web.documents.openapi import COMPONENT, limited
from libs.web.door.auth import headers_of
from libs.web.door.request_parsing import (
    URLENCODED,
    in_pieces,
    json_text,
    parse_fields,
    parse_json,
    parse_object,
    read_body,
    require_json,
    require_utf8,
)
from libs.web.errors import MalformedJson

MULTIPART: Final = "multipart/form-data"
FORMS: Final = (URLENCODED, MULTIPART)
BOOLEANS: Final = {
    text: value
    for value, texts in ((True, ("true", "True", "TRUE", "1")), (False, ("false", "False", "FALSE", "0")))
    for text in texts
}
"""Boolean texts in forms and queries."""
INTEGER: Final = re.compile("0|-?[1-9][0-9]{0,19}")
"""Longer integers exceed 64 bits."""


async def read_parameters(
    request: Request, parameters: Mapping[str, JsonSchema], max_bytes: int
) -> dict[str, Any]:
    """Return the body's values of `parameters`, and of unknown ones in JSON; {} for an empty body.

    The body has at most `max_bytes`. Raises the errors of `libs.web.door.request_parsing`. The values are not
    validated.
    """
    headers = headers_of(request.scope)
    kind = require_json(headers, *FORMS)
    body = await read_body(headers, request.receive, max_bytes)
    if kind not in FORMS:
        return await off_loop(len(body), parse_object, body) if body else {}
    require_utf8(headers)
    if kind == URLENCODED:
        fields = await off_loop(len(body), parse_fields, body)
    else:

        async def again() -> Message:
            return {"type": "http.request", "body": body}

        async with Request(request.scope, in_pieces(again)).form(max_fields=FORM_FIELDS) as form:
            fields = form.multi_items()
    texts = [(name, value) for name, value in fields if isinstance(value, str)]
    return await off_loop(len(body), from_form, texts, parameters)


def from_form(form: Iterable[tuple[str, str]], parameters: Mapping[str, JsonSchema]) -> dict[str, Any]:
    """Convert form texts to the types of the parameters; unknown names are ignored.

    Lists and objects are JSON text or repeated names; an empty value is null, except for texts.
    """
    texts: dict[str, list[str]] = {}
    for name, text in form:
        if name in parameters:
            texts.setdefault(name, []).append(text)
    return {name: _value(parameters[name], given) for name, given in texts.items()}


def plain(schema: JsonSchema) -> JsonSchema:
    """Return the schema by which a value is parsed, of a schema with alternatives."""
    found: JsonSchema = schema.get("anyOf", [schema])[0]
    return found


def _value(schema: JsonSchema, texts: list[str]) -> Any:
    """Convert the texts to the schema's type; others stay text, and validation reports them."""
    kind, text = plain(schema).get("type"), texts[-1]
    if kind == "array":
        return _list(plain(schema), texts)
    if text == "" and (kind != "string" or "format" in schema or "enum" in schema):
        return None
    if kind == "boolean":
        return BOOLEANS.get(text, text)
    if kind == "integer":
        return int(text) if INTEGER.fullmatch(text) else text
    return text if kind == "string" else _json(text)


def _list(schema: JsonSchema, texts: list[str]) -> Any:
    if texts == [""]:
        return []
    if len(texts) == 1 and isinstance(whole := _json(texts[0]), list):
        return whole
    return texts if schema["items"].get("type") == "string" else [_json(text) for text in texts]


def _json(text: str) -> Any:
    try:
        return parse_json(text.encode())
    except MalformedJson:
        return text


def request_body(
    name: str,
    parameters: Mapping[str, JsonSchema],
    required: Sequence[str],
    kinds: Sequence[str],
    max_bytes: int,
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
                each: _text(schema)
                for each, schema in exact.items()
                if kind == MULTIPART or schema.get("format") != "binary"
            }
            suffix = "form" if texts.keys() == exact.keys() else "fields"
            described = _object(f"{whole}.{suffix}", texts, required)
        content[kind] = {"schema": described}
    body = {"content": content, "required": bool(required) or "application/json" not in kinds}
    return limited(body, max_bytes)


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


def _text(schema: JsonSchema) -> JsonSchema:
    """Return the schema of a member in a form, where an empty value is null, except for texts."""
    kind = plain(schema)["type"]
    if kind == "object":
        return json_text(schema)
    if kind == "array":
        description = f"{schema.get('description', '')} JSON text of the list, or a field for each item."
        fields = {"type": "array", "items": {"type": "string"}}
        return {"description": description.strip(), "anyOf": [json_text(schema), fields]}
    return schema
