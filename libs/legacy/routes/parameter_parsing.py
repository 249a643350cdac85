"""Parses the parameters of legacy writes from JSON or forms."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.types import Message

from libs.legacy.parameters.translator import JsonSchema
from libs.web import form_schemas
from libs.web.auth import headers_of
from libs.web.errors import MalformedJson
from libs.web.request_parsing import parse_json, parse_object, read_body, require_json, require_utf8

FORMS: Final = ("application/x-www-form-urlencoded", "multipart/form-data")
BOOLEANS: Final = {
    text: value
    for value, texts in ((True, ("true", "True", "TRUE", "1")), (False, ("false", "False", "FALSE", "0")))
    for text in texts
}
"""Boolean texts in forms and queries."""
INTEGER: Final = re.compile(form_schemas.INTEGER)


async def read_parameters(request: Request, parameters: Mapping[str, JsonSchema]) -> dict[str, Any]:
    """Return the body's values of `parameters`, and of unknown ones in JSON; {} for an empty body.

    Raises the errors of `libs.web.request_parsing`. The values are not validated.
    """
    headers = headers_of(request.scope)
    kind = require_json(headers, *FORMS)
    body = await read_body(headers, request.receive)
    if kind not in FORMS:
        return parse_object(body) if body else {}
    require_utf8(headers)

    async def again() -> Message:
        return {"type": "http.request", "body": body}

    async with Request(request.scope, again).form() as form:
        return from_form(
            ((name, value) for name, value in form.multi_items() if isinstance(value, str)), parameters
        )


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
