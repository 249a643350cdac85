"""Pieces of the API's description that every router needs."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from libs.web.errors import PROBLEM_JSON, TABLE

Schema = dict[str, Any]

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


def parameter(name: str, where: str, description: str, schema: Schema | None = None) -> Schema:
    return {
        "name": name,
        "in": where,
        "required": where == "path",
        "description": description,
        "schema": schema or {"type": "string"},
    }


PAGE: Final = (
    parameter(
        "limit", "query", "Records a page.", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
    ),
    parameter("next", "query", "The token of the page before."),
)


def body(model: type[BaseModel]) -> Schema:
    """A JSON body that the handler itself reads and checks by `model`."""
    return {"required": True, "content": {"application/json": {"schema": inlined(model.model_json_schema())}}}


def inlined(schema: Schema) -> Schema:
    """The schema with its definitions in place of the references to them."""
    definitions = schema.pop("$defs", {})

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                name = value["$ref"].rsplit("/", 1)[1]
                rest = {key: item for key, item in value.items() if key != "$ref"}
                return walk(definitions[name]) | rest
            return {key: walk(item) for key, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else value

    found: Schema = walk(schema)
    return found
