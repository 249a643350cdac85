"""Pieces of the API's description that every router needs; `document.py` puts it together."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode

from libs.web.errors import PROBLEM_JSON, TABLE

Schema = dict[str, Any]

COMPONENT: Final = "x-component"
"""Marks what becomes a component, such as `schemas/Shop`, and is referred to wherever it stands."""
PERMISSION: Final = "x-permission"
"""What the caller's key must allow."""

PROBLEM: Final[Schema] = {
    COMPONENT: "schemas/Problem",
    "description": "What went wrong (RFC 9457). Members beside these are facts of the code, as far as it has any.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "code", "request_id"],
    "properties": {
        "type": {"type": "string", "description": "A URN of the code."},
        "title": {"type": "string", "description": "The same for every occurrence of the code."},
        "status": {"type": "integer", "description": "As in the answer's first line."},
        "detail": {"type": "string", "description": "For a person."},
        "instance": {"type": "string", "description": "The path that was asked."},
        "code": {"type": "string", "enum": sorted(TABLE), "description": "What went wrong; it never changes."},
        "request_id": {"type": "string", "description": "Finds the request in the service's own log."},
        "errors": {
            "type": "array",
            "description": "What is wrong with the body or a parameter.",
            "items": {
                "type": "object",
                "required": ["pointer", "message"],
                "properties": {
                    "pointer": {"type": "string", "description": "Where in the body (RFC 6901)."},
                    "message": {"type": "string", "description": "For a person."},
                },
            },
        },
    },
}
BAD_BODY: Final = ("malformed_json", "unsupported_media_type", "payload_too_large", "validation_failed")

LEGACY_ERROR: Final[Schema] = {
    COMPONENT: "schemas/LegacyError",
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string", "enum": sorted(TABLE)},
                "message": {"type": "string", "description": "For a person."},
            },
        }
    },
}


def needs(permission: str) -> Schema:
    """Of an operation: the permission of its key, which the document names. Without one, no key is needed."""
    return {PERMISSION: permission}


def answers(*codes: str, success: Mapping[int | str, Schema]) -> dict[int | str, Schema]:
    """The answers of an operation with a key: the good ones, and a problem for each of `codes`."""
    return dict(success) | problems("unauthorized", "forbidden", *codes, "views_unavailable")


def problems(*codes: str) -> dict[int | str, Schema]:
    """Answers by status, for all `codes`."""
    if "views_unavailable" in codes:
        codes = (*codes, "overloaded")  # of too many connections, too
    by_status: dict[int | str, list[str]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(TABLE[code].status, []).append(code)
    return {status: _problem(sorted(names)) for status, names in by_status.items()}


def _legacy(name: str, description: str) -> Schema:
    return {
        COMPONENT: f"responses/legacy.{name}",
        "description": description,
        "content": {"application/json": {"schema": LEGACY_ERROR}},
    }


LEGACY_ANSWERS: Final[dict[int | str, Schema]] = {
    400: _legacy("refused", "Not found, no permission, or a bad value."),
    401: _legacy("unauthorized", "Brand and key are missing or unknown, or do not belong together."),
    503: _legacy("unavailable", TABLE["views_unavailable"].title + "."),
}
"""How every operation of the legacy generation fails."""


def _problem(codes: list[str]) -> Schema:
    narrowed = {"allOf": [PROBLEM], "properties": {"code": {"enum": codes}}}
    return {
        COMPONENT: f"responses/{'.'.join(codes)}",
        "description": "; ".join(f"{TABLE[code].title} (`{code}`)" for code in codes) + ".",
        "content": {PROBLEM_JSON: {"schema": narrowed}},
    }


def parameter(name: str, where: str, description: str, schema: Schema | None = None) -> Schema:
    return {
        "name": name,
        "in": where,
        "required": where == "path",
        "description": description,
        "schema": schema or {"type": "string"},
    }


def shared(name: str, where: str, description: str, schema: Schema | None = None) -> Schema:
    """A parameter that many operations have alike."""
    return {COMPONENT: f"parameters/{name}"} | parameter(name, where, description, schema)


def response_header(name: str, description: str, schema: Schema | None = None) -> Schema:
    """A header that many answers have alike, under its name."""
    return {
        name: {COMPONENT: f"headers/{name}", "description": description, "schema": schema or {"type": "string"}}
    }


LIMIT_HEADERS: Final[Schema] = {
    **response_header(
        "RateLimit",
        "A list (RFC 9651) of one item, as in draft-ietf-httpapi-ratelimit-headers-10: the name of the policy "
        "that counted the request, with the requests left (`r`) and the seconds until the quota is whole again "
        '(`t`): `"key";r=49;t=7`. Every answer to a request that was counted has it.',
    ),
    **response_header(
        "RateLimit-Policy",
        "A list (RFC 9651) of one item, as in the same draft: the policy's name (`key`, `address` or `failures`), "
        'with its quota of requests (`q`) in a window of seconds (`w`): `"key";q=50;w=10`.',
    ),
    **response_header("Retry-After", "When to try again, in seconds."),
}
_TOO_MANY: Final = "Too many requests (`rate_limited`): of the API key, or without one of the address."


def limit_answers(*, legacy: bool, has_body: bool) -> dict[str, Schema]:
    """How every operation may fail before it begins: the request is too large, too slow, or one too many."""
    codes = {"429": "rate_limited", "431": "headers_too_large"} | ({"408": "request_timeout"} if has_body else {})
    if legacy:
        found = {status: _legacy(code, f"{TABLE[code].title}.") for status, code in codes.items()}
    else:
        found = {status: _problem([code]) for status, code in codes.items()}
    found["429"] |= {"description": _TOO_MANY, "headers": LIMIT_HEADERS}
    return found


PAGE: Final = (
    shared("limit", "query", "Records a page.", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}),
    shared("next", "query", "The `next` of the page before."),
)
IF_MATCH: Final = shared("If-Match", "header", "Write only where the record has this ETag.")
IF_NONE_MATCH: Final = shared("If-None-Match", "header", "Answer 304 at this ETag.")
IDEMPOTENCY_KEY: Final = shared(
    "Idempotency-Key",
    "header",
    "Sent again with it, a request takes effect once, for 24 hours; with other content it is refused.",
    {"type": "string", "pattern": "^[!-~]{1,255}$"},
)
ETAG: Final = response_header("ETag", "The record's version: strong, for `If-Match` and `If-None-Match`.")
LOCATION: Final = response_header("Location", "Where to read it.")
REPLAYED: Final = response_header(
    "Idempotent-Replayed", "There where an earlier request did it.", {"type": "string", "enum": ["true"]}
)
UNCHANGED: Final[dict[int | str, Schema]] = {304: {"description": "It still has the ETag of `If-None-Match`."}}


def takes(model: type[BaseModel], *parameters: Schema) -> Schema:
    """Of an operation: its body, and parameters beside those of the path."""
    return {"requestBody": body(model), "parameters": list(parameters)}


def body(model: type[BaseModel]) -> Schema:
    """A JSON body that the handler itself reads and checks by `model`."""
    return {"required": True, "content": {"application/json": {"schema": written(model)}}}


def written(model: type[BaseModel]) -> Schema:
    """The component of what is sent."""
    return named(model.__name__, json_schema(model))


def json_schema(model: type[BaseModel], mode: JsonSchemaMode = "validation") -> Schema:
    """A model's JSON schema. Generated once a process: each resource's operations mention it several times."""
    return dict(_generated(model, mode))


@cache
def _generated(model: type[BaseModel], mode: JsonSchemaMode) -> Schema:
    return model.model_json_schema(mode=mode)


def named(name: str, schema: Schema, suffix: str = "") -> Schema:
    """A self-contained schema as a component; its definitions are components too, with `suffix` at their names."""
    definitions = schema.pop("$defs", {})

    def walk(value: Any) -> Any:
        if isinstance(value, list):
            return [walk(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$ref" not in value:
            return {key: walk(item) for key, item in value.items()}
        rest = {key: item for key, item in value.items() if key != "$ref"}
        defined = value["$ref"].rsplit("/", 1)[1]
        component = {COMPONENT: f"schemas/{defined}{suffix}"} | walk(definitions[defined])
        return {"allOf": [component]} | rest if rest else component

    walked: Schema = walk(schema)
    return {COMPONENT: f"schemas/{name}"} | walked
