"""What the documentation says of a row's routes: generated from the row, never written by hand."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi.security import HTTPBearer

from libs.catalogue.keys import PERMISSIONS
from libs.catalogue.table import Resource
from libs.web.errors import PROBLEM_JSON, TABLE

Schema = dict[str, Any]

BEARER: Final = HTTPBearer(
    auto_error=False,
    bearerFormat="tk_...",
    description="An API key. Its permissions are chosen when it is made: " + ", ".join(PERMISSIONS) + ".",
)
TIME: Final[Schema] = {"type": "string", "format": "date-time"}
EXAMPLE_KEY: Final = "8c1f0e5a7b2d4c6e9f3a1b50"
EXAMPLE_TIME: Final = "2026-05-01T18:00:00.000000Z"
PROBLEM: Final[Schema] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "code", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "code": {"type": "string", "enum": sorted(TABLE)},
        "request_id": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"pointer": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}


def written(row: Resource) -> Schema:
    """What a body may hold."""
    return _inlined(row.schema.model_json_schema(mode="validation"))


def read(row: Resource) -> Schema:
    """What a read answers."""
    schema = _inlined(row.schema.model_json_schema(mode="serialization"))
    schema.pop("additionalProperties", None)
    own: Schema = {"key": {"type": "string"}}
    times: Schema = {"created": TIME, "updated": TIME}
    schema["properties"] = own | schema["properties"] | dict(row.computed_members) | times
    return schema


def listed(row: Resource) -> Schema:
    """The envelope of a list."""
    return {
        "type": "object",
        "required": ["data", "has_more", "next"],
        "properties": {
            "data": {"type": "array", "items": read(row)},
            "has_more": {"type": "boolean"},
            "next": {"type": ["string", "null"], "description": "Give it back as `?next=`."},
        },
    }


def body(row: Resource) -> Schema:
    return {"required": True, "content": {"application/json": {"schema": written(row), "example": row.example}}}


def patch_body(row: Resource) -> Schema:
    """Any members; an object for a typed member is merged into it, so no member is required."""
    content = {"schema": {"type": "object"}, "example": dict(list(row.example.items())[:1])}
    return {"required": True, "content": {"application/merge-patch+json": content, "application/json": content}}


def answers(*codes: str, success: Mapping[int | str, Schema]) -> dict[int | str, Schema]:
    """The answers of an operation: the good ones, and a problem for each of `codes`."""
    found: dict[int | str, Schema] = dict(success)
    by_status: dict[int, list[str]] = {}
    for code in ("unauthorized", "forbidden", *codes, "views_unavailable"):
        by_status.setdefault(TABLE[code].status, []).append(code)
    for status, names in by_status.items():
        found[status] = {
            "description": "; ".join(f"{TABLE[name].title} (`{name}`)" for name in names) + ".",
            "content": {PROBLEM_JSON: {"schema": PROBLEM}},
        }
    return found


def record_answer(row: Resource, description: str) -> Schema:
    example = {"key": EXAMPLE_KEY} | row.example | {"created": EXAMPLE_TIME, "updated": EXAMPLE_TIME}
    return {
        "description": description,
        "headers": {"ETag": {"schema": {"type": "string"}, "description": "The record's version."}},
        "content": {"application/json": {"schema": read(row), "example": example}},
    }


def list_answer(row: Resource) -> Schema:
    return {"description": "A page, newest first.", "content": {"application/json": {"schema": listed(row)}}}


def parameter(name: str, where: str, description: str, schema: Schema | None = None) -> Schema:
    return {
        "name": name,
        "in": where,
        "required": where == "path",
        "description": description,
        "schema": schema or {"type": "string"},
    }


def _inlined(schema: Schema) -> Schema:
    """The schema with its definitions in place: rows share no components."""
    definitions = schema.pop("$defs", {})

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                name = value["$ref"].rsplit("/", 1)[1]
                rest = {key: item for key, item in value.items() if key != "$ref"}
                return walk(definitions[name]) | rest
            return {key: walk(item) for key, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else value

    inlined: Schema = walk(schema)
    return inlined
