"""Schemas of form fields, derived from the JSON schema of the same member.

Each form value is text: integers are decimal digits, objects and lists JSON text.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from libs.web.openapi import Schema

SPACE: Final = "[ \\t\\n\\r]*"
BRACKETS: Final[Mapping[str, str]] = {
    "object": r"\{[\s\S]*\}",
    "array": r"\[[\s\S]*\]",
    "boolean": "true|false",
    "null": "null",
}
"""Outermost pattern of JSON texts, by JSON type."""
INTEGER: Final = "0|-?[1-9][0-9]{0,19}"
"""Longer integers exceed 64 bits."""


def json_text(schema: Schema, *types: str, may_be_empty: bool = False) -> Schema:
    """Return the schema of a text that holds JSON of one of `types`, as `schema` describes it."""
    form = f"{SPACE}({'|'.join(BRACKETS[each] for each in types)}){SPACE}"
    return {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": schema,
        "pattern": f"^({form})?$" if may_be_empty else f"^{form}$",
    }


def integer_text(schema: Schema, *, may_be_empty: bool = False) -> Schema:
    """Return the schema of a decimal integer as text, within the bounds of `schema`."""
    digits = "|".join(_within(schema)) if {"minimum", "maximum"} <= schema.keys() else INTEGER
    return {"type": "string", "pattern": f"^({digits}){'?' if may_be_empty else ''}$"}


def about(schema: Schema) -> Schema:
    """Return a member's description, and its default as text."""
    described = {name: schema[name] for name in ("description",) if name in schema}
    default = schema.get("default")
    if default is not None:
        described["default"] = default if isinstance(default, str) else orjson.dumps(default).decode()
    return described


def types_of(schema: Schema) -> list[str]:
    """Return the JSON types in a schema; a `$ref` counts as an object."""
    named = [each.get("type", "object" if "$ref" in each else None) for each in schema.get("anyOf", [schema])]
    return [each for each in named if isinstance(each, str)]


def _within(schema: Schema) -> Iterator[str]:
    """Yield patterns of the integers within the bounds of `schema`."""
    least, most = schema["minimum"], schema["maximum"]
    if not least <= 1 <= most:
        raise ValueError(f"no pattern for integers from {least} to {most}")
    if least < 0:
        yield from (f"-{each}" for each in _up_to(-least))
    if least <= 0 and schema.get("not") != {"const": 0}:
        yield "0"
    yield from _up_to(most)


def _up_to(most: int) -> Iterator[str]:
    """Yield patterns of the integers from 1 to `most`, without leading zeros."""
    digits = str(most)
    if len(digits) > 1:
        yield f"[1-9][0-9]{{0,{len(digits) - 2}}}"
    for place, digit in enumerate(digits):
        first, left = int(place == 0), len(digits) - place - 1
        if int(digit) > first:
            rest = f"[0-9]{{{left}}}" if left else ""
            yield f"{digits[:place]}[{first}-{int(digit) - 1}]{rest}"
    yield digits


def as_fields(properties: Mapping[str, Any], texts: tuple[str, ...]) -> Schema:
    """Return form fields for `properties`: those in `texts` unchanged, other members as JSON text."""
    return {
        name: about(schema) | ({"type": "string"} if name in texts else json_text(schema, *types_of(schema)))
        if types_of(schema)
        else schema
        for name, schema in properties.items()
    }
