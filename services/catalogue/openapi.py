"""OpenAPI descriptions of a resource's routes, generated from the resource."""

from typing import Annotated, Any, Final

from fastapi import Query
from pydantic import BaseModel, BeforeValidator, WithJsonSchema

from libs.catalogue.resource_definition import Resource
from libs.tally.time_conversion import microseconds, parse_timestamp
from libs.web.documents.openapi import (
    COMPONENT,
    ETAG,
    LOCATION,
    REPLAYED,
    UNCHANGED,
    Schema,
    json_schema,
    limited,
    named,
    patch_body,
    problems,
    written,
)
from libs.web.door.typed_routes import ListPage

TIME: Final[dict[str, Any]] = {"type": "string", "format": "date-time"}


def _moment(given: str) -> int:
    return microseconds(parse_timestamp(given.replace(" ", "+")))


Tags = Annotated[list[str] | None, Query(description="Records with all of these tags.")]
UpdatedSince = Annotated[
    int | None,
    BeforeValidator(_moment),
    Query(description="Records changed since then; orders by `updated`."),
    WithJsonSchema(TIME),
]
WAITS: Final = "waits_for_reopening"
"""Member of a record whose change waits for a reopening; a write's answer then has the header `WAITS_FOR`."""
WAITS_FOR: Final = "Tally-Waits-For"
EXAMPLE_KEY: Final = "8c1f0e5a7b2d4c6e9f3a1b50"
EXAMPLE_TIME: Final = "2026-05-01T18:00:00.000000Z"


def request_schema(row: Resource) -> Schema:
    """Return the schema of a request body."""
    return written(row.schema) | {"examples": [row.example]}


def read(row: Resource) -> Schema:
    """Return the schema of a record in responses."""
    schema = json_schema(row.schema, "serialization")
    schema.pop("additionalProperties", None)
    own: Schema = {"key": {"type": "string", "description": "The record's key; it never changes."}}
    times: Schema = {
        "created": TIME | {"description": "Time of creation."},
        "updated": TIME | {"description": "Time of the last change."},
    }
    schema["properties"] = own | schema["properties"] | dict(row.schema.computed_members) | times
    schema["required"] = list(dict.fromkeys([*own, *schema.get("required", ()), *times]))
    example = {"key": EXAMPLE_KEY} | row.example | {"created": EXAMPLE_TIME, "updated": EXAMPLE_TIME}
    return named(f"{row.schema.__name__}Record", schema | {"examples": [example]}, "Record")


def listed(row: Resource) -> Schema:
    """Return the schema of a page of records."""
    page = json_schema(ListPage[Any], "serialization")
    data = {"type": "array", "items": read(row), "description": "Newest first, unless `order` says otherwise."}
    name = f"{row.schema.__name__}Page"
    return named(name, page | {"title": name, "properties": page["properties"] | {"data": data}})


def answer(model: type[BaseModel], description: str) -> Schema:
    return {"model": model, "description": description, "headers": ETAG}


def record_answer(row: Resource, description: str) -> Schema:
    return {
        "description": description,
        "headers": ETAG,
        "content": {"application/json": {"schema": read(row)}},
        "links": links(row),
    }


def patched(row: Resource) -> Schema:
    """Describe the answer to a PATCH, with the header for a change that waits."""
    answer = record_answer(row, "The changed record.")
    if WAITS not in row.schema.computed_members:
        return answer
    waits = {
        "description": "What the change of `status` waits for; absent if it is in force.",
        "schema": {"type": "string", "enum": ["reopening"]},
    }
    return answer | {"headers": answer["headers"] | {WAITS_FOR: waits}}


def operation_id(handler: str, row: Resource) -> str:
    """Return `list_contests` or `update_contest`: generated clients name their methods after it."""
    if handler == "page":
        return f"list_{row.name}"
    return f"{'update' if handler == 'patch' else handler}_{row.singular}"


def links(row: Resource) -> Schema:
    """Return links from a returned record to the operations on it."""
    served = [name for name in ("get", "patch", "delete") if name in row.operations or name == "delete"]
    return {
        operation_id(name, row): {
            COMPONENT: f"links/{operation_id(name, row)}",
            "operationId": operation_id(name, row),
            "parameters": {f"{row.singular}_key": "$response.body#/key"},
        }
        for name in served
    }


def created(row: Resource, description: str = "Created.") -> Schema:
    answer = record_answer(row, description)
    return answer | {"headers": answer["headers"] | LOCATION | REPLAYED}


def operation(handler: str, row: Resource) -> Schema:
    """Return the handler's request body and responses."""
    described: Schema = {"responses": {str(status): each for status, each in responses(row)[handler].items()}}
    if handler == "patch":
        first = dict(list(row.example.items())[:1])
        return described | {"requestBody": patch_body(row.schema, row.body_bytes, example=first)}
    if handler in ("create", "place"):
        content = {"application/json": {"schema": request_schema(row)}}
        return described | {"requestBody": limited({"required": True, "content": content}, row.body_bytes)}
    return described


def responses(row: Resource) -> dict[str, dict[int | str, Schema]]:
    """Return the responses by handler."""
    changed, singular = ("not_found", "in_use"), row.singular.replace("_", " ")
    replaced = record_answer(row, "Replaced as a whole; only `created` is kept.")
    page = {
        "description": "A page. With filters it can be short, even empty, before the last one.",
        "content": {"application/json": {"schema": listed(row)}},
    }
    return {
        "create": {201: created(row), **problems("not_found", "quota_exceeded")},
        "place": {
            201: created(row, "Created at this key."),
            200: replaced,
            **problems("quota_exceeded"),
        },
        "page": {200: page, **problems("not_found")},
        "get": {200: record_answer(row, f"The {singular}."), **UNCHANGED, **problems("not_found")},
        "patch": {
            200: patched(row),
            **problems(*changed, "quota_exceeded", *row.refusals.get("PATCH", ())),
        },
        "delete": {
            204: {"description": "Deleted, with the records that belong to it."},
            **problems(*changed, *row.refusals.get("DELETE", ())),
        },
    }
