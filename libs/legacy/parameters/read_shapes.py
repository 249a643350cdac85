"""Building blocks for the JSON schemas of read shapes; most members come from the resources' tables."""

from collections.abc import Mapping
from typing import Final

from libs.legacy.parameters.translator import JsonSchema
from libs.web.openapi import COMPONENT

TEXT: Final[JsonSchema] = {"type": "string"}
TEXT_OR_NULL: Final[JsonSchema] = {"type": ["string", "null"]}
INTEGER: Final[JsonSchema] = {"type": "integer"}
FLAG: Final[JsonSchema] = {"type": "boolean"}
TIME: Final[JsonSchema] = {"type": "string", "format": "date-time"}
OBJECT: Final[JsonSchema] = {"type": "object"}
OBJECT_OR_NULL: Final[JsonSchema] = {"type": ["object", "null"]}
COUNT: Final[JsonSchema] = {"type": ["integer", "null"], "description": "Null while hidden from the caller."}
TIMES: Final[JsonSchema] = {"created": TIME, "updated": TIME}


def shape(name: str, members: Mapping[str, JsonSchema]) -> JsonSchema:
    """Return the component of an object that always has these members."""
    return {
        COMPONENT: f"schemas/Legacy{name}",
        "type": "object",
        "required": list(members),
        "properties": dict(members),
    }


def of(schema: JsonSchema, *names: str) -> dict[str, JsonSchema]:
    """Return members with the same schema."""
    return dict.fromkeys(names, schema)


def described(schema: JsonSchema, description: str) -> JsonSchema:
    return schema | {"description": description}


def array(item: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": item}


def or_null(component: JsonSchema) -> JsonSchema:
    return {"anyOf": [component, {"type": "null"}]}


def page(member: str, item: JsonSchema) -> JsonSchema:
    """Return the shape of a page of a list, whose records are in `member`."""
    whole = shape(f"{member.capitalize()}Page", {member: array(item)})
    whole["properties"] |= {"next": {"type": "string", "description": "Absent at the end."}}
    return whole
