"""Building blocks of the OpenAPI document for all routers; `openapi_document.py` assembles it."""

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode

from libs.web.errors import PROBLEM_JSON, TABLE

Schema = dict[str, Any]

COMPONENT: Final = "x-component"
"""Marks a component, such as `schemas/Shop`, which a `$ref` replaces wherever it is used."""
PERMISSION: Final = "x-permission"
"""The permission that the caller's key needs."""
CODES: Final = "x-codes"
"""The error codes of a response, from which `openapi_document.py` builds it."""

PROBLEM_DATA: Final[Schema] = {
    "limit": {
        "type": "integer",
        "description": "Votes that the limit allows (`participant_limit_reached`, `contest_limit_reached`, "
        "`ip_limit_reached`), or bytes or records that the account may store (`quota_exceeded`).",
    },
    "used": {
        "type": "integer",
        "description": "What is used of the `limit`; for `quota_exceeded` with this write.",
    },
    "next_free_vote_at": {
        "type": ["string", "null"],
        "format": "date-time",
        "description": "Time of the free allowance's next renewal, of limits of votes; null if it does not renew.",
    },
    "setting": {"type": "string", "description": "The operator's setting with the `limit` (`quota_exceeded`)."},
    "vote_id": {"type": "string", "description": "Of requests about one vote: its id, for the next attempt."},
    "phase": {"type": "string", "description": "The contest's phase (`contest_not_running`)."},
    "start": {
        "type": ["string", "null"],
        "format": "date-time",
        "description": "The contest's start (`contest_not_running`).",
    },
    "end": {
        "type": ["string", "null"],
        "format": "date-time",
        "description": "The contest's end (`contest_not_running`).",
    },
    "referrers": {
        "type": "array",
        "description": "The first hundred records that refer to this one (`in_use`).",
        "items": {
            COMPONENT: "schemas/Referrer",
            "type": "object",
            "description": "A record that refers to another.",
            "required": ["resource", "key"],
            "properties": {
                "resource": {"type": "string", "description": "Name of the resource, as in its path."},
                "key": {"type": "string", "description": "Key of the record."},
            },
        },
    },
    "permission": {"type": "string", "description": "The permission that the key lacks (`forbidden`)."},
    "vote_visibility": {"type": "string", "description": "The contest's setting (`results_hidden`)."},
    "max_bytes": {
        "type": "integer",
        "description": "The largest size of the body or record (`payload_too_large`).",
    },
    "max_values": {
        "type": "integer",
        "description": "The largest number of values in the body (`payload_too_large`).",
    },
    "max_fields": {
        "type": "integer",
        "description": "The largest number of a form's fields (`payload_too_large`).",
    },
    "key": {
        "type": "string",
        "description": "Key of the purchase (`purchase_unreadable`, `idempotency_key_reused`).",
    },
}
"""Members of problems that depend on the code: `data` of the errors (`libs/tally/errors.py`)."""
PROBLEM: Final[Schema] = {
    COMPONENT: "schemas/Problem",
    "description": "Problem details (RFC 9457). Further members depend on the code.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "code", "request_id"],
    "properties": {
        "type": {"type": "string", "description": "URN of the code."},
        "title": {"type": "string", "description": "The same for every occurrence of the code."},
        "status": {"type": "integer", "description": "The HTTP status."},
        "detail": {"type": "string", "description": "Human-readable text."},
        "instance": {"type": "string", "description": "The requested path."},
        "code": {"type": "string", "enum": sorted(TABLE), "description": "Machine-readable code; stable."},
        "request_id": {"type": "string", "description": "Identifies the request in the service's log."},
        "errors": {
            "type": "array",
            "description": "Invalid fields of the body, or parameters.",
            "items": {
                COMPONENT: "schemas/InvalidField",
                "type": "object",
                "description": "An invalid field or parameter.",
                "required": ["message"],
                "properties": {
                    "pointer": {
                        "type": "string",
                        "description": "JSON Pointer into the body (RFC 6901); empty: the whole body.",
                    },
                    "parameter": {
                        "type": "string",
                        "description": "Name of a query parameter or header, instead of a pointer.",
                    },
                    "message": {"type": "string", "description": "Human-readable text."},
                },
            },
        },
        **PROBLEM_DATA,
    },
}
LEGACY_ERROR: Final[Schema] = {
    COMPONENT: "schemas/LegacyError",
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "description": "The error.",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string", "enum": sorted(TABLE), "description": "Machine-readable code; stable."},
                "message": {"type": "string", "description": "Human-readable text."},
            },
        }
    },
}


def needs(permission: str) -> Schema:
    """Return an operation's required permission for the document. Without it, no key is needed."""
    return {PERMISSION: permission}


def problems(*codes: str) -> dict[int | str, Schema]:
    """Return the responses for `codes`, by status, in an operation's description.

    The document adds those that follow from the operation's permission, body and headers.
    """
    by_status: dict[int | str, Schema] = {}
    for code in codes:
        by_status.setdefault(TABLE[code].status, {CODES: []})[CODES].append(code)
    return by_status


def _legacy(name: str, code: str, description: str) -> Schema:
    error = {"code": code, "message": f"{TABLE[code].title}."}
    return {
        COMPONENT: f"responses/legacy.{name}",
        "description": description,
        "content": {"application/json": {"schema": LEGACY_ERROR, "example": {"error": error}}},
    }


LEGACY_ANSWERS: Final[dict[int | str, Schema]] = {
    400: _legacy("refused", "not_found", "Not found, forbidden, or invalid."),
    401: _legacy("unauthorized", "unauthorized", "Brand or key is missing or unknown, or they do not match."),
    503: _legacy("unavailable", "views_unavailable", TABLE["views_unavailable"].title + "."),
}
"""Error responses of every operation of the legacy API."""


def problem(codes: Iterable[str]) -> Schema:
    """Return the response with one of these codes."""
    codes = sorted(codes)
    return {
        COMPONENT: f"responses/{'.'.join(codes)}",
        "description": "; ".join(f"{TABLE[code].title} (`{code}`)" for code in codes) + ".",
        "content": {PROBLEM_JSON: {"schema": PROBLEM, "examples": {code: _example(code) for code in codes}}},
    }


def _example(code: str) -> Schema:
    """Return an example of a problem; further members depend on the request."""
    status, title = TABLE[code]
    value = {
        "type": f"urn:tallykeeper:problem:{code}",
        "title": title,
        "status": status,
        "detail": f"{title}.",
        "instance": "/contests/65f1c0ffee0ddba11ca7f00d",
        "code": code,
        "request_id": "0199a3c6f2b47d1e8a50",
    }
    return {"summary": title, "value": value}


def parameter(name: str, where: str, description: str, schema: Schema | None = None) -> Schema:
    return {
        "name": name,
        "in": where,
        "required": where == "path",
        "description": description,
        "schema": schema or {"type": "string"},
    }


def response_header(name: str, description: str, schema: Schema | None = None) -> Schema:
    """Return a header that many responses share, by its name."""
    return {
        name: {COMPONENT: f"headers/{name}", "description": description, "schema": schema or {"type": "string"}}
    }


LIMIT_HEADERS: Final[Schema] = {
    **response_header(
        "RateLimit",
        "A list (RFC 9651) of one item, as in draft-ietf-httpapi-ratelimit-headers-10: the name of the policy "
        "that counted the request, with the requests or bytes left (`r`) and the seconds until the quota resets "
        '(`t`): `"key";r=49;t=7`. Sent with every response to a counted request.',
    ),
    **response_header(
        "RateLimit-Policy",
        "A list (RFC 9651) of one item, as in the same draft: the policy's name (`key`, `address` or `failures`), "
        'with its quota of requests (`q`) in a window of seconds (`w`): `"key";q=50;w=10`. The answer to a body '
        'that is refused names `key-bytes` or `address-bytes`, with a quota of bytes (`qu="content-bytes"`).',
    ),
    **response_header("Retry-After", "Seconds to wait before the next attempt."),
}
_TOO_MANY: Final = (
    "Too many requests, or too many bytes of bodies (`rate_limited`), of the API key, or of the IP address "
    "without a key."
)


def limit_answers(*, legacy: bool, has_body: bool) -> dict[str, Schema]:
    """Return the errors of every operation before it starts: request too large, too slow, or rate-limited."""
    codes = {"429": "rate_limited", "431": "headers_too_large"} | ({"408": "request_timeout"} if has_body else {})
    if legacy:
        found = {status: _legacy(code, code, f"{TABLE[code].title}.") for status, code in codes.items()}
    else:
        found = {status: problem([code]) for status, code in codes.items()}
    found["429"] |= {"description": _TOO_MANY, "headers": LIMIT_HEADERS}
    return found


ETAG: Final = response_header("ETag", "The record's version: strong, for `If-Match` and `If-None-Match`.")
LOCATION: Final = response_header("Location", "URL of the record.")
REPLAYED: Final = response_header(
    "Idempotent-Replayed",
    "Present if an earlier request already took effect.",
    {"type": "string", "enum": ["true"]},
)
UNCHANGED: Final[dict[int | str, Schema]] = {
    304: {"description": "Not modified: the ETag of `If-None-Match` is current."}
}


MAX_BYTES: Final = "x-max-bytes"
"""The largest size of a request's body."""


def takes(model: type[BaseModel], max_bytes: int) -> Schema:
    """Return an operation's body."""
    return {"requestBody": body(model, max_bytes)}


def body(model: type[BaseModel], max_bytes: int) -> Schema:
    """Return a JSON body that the handler itself reads and validates with `model`."""
    return limited({"required": True, "content": {"application/json": {"schema": written(model)}}}, max_bytes)


def limited(request_body: Schema, max_bytes: int) -> Schema:
    """Return the body with its largest size: `openapi_document.py` refuses one without."""
    return request_body | {"description": f"At most {max_bytes:,} bytes.", MAX_BYTES: max_bytes}


def patch_body(model: type[BaseModel], max_bytes: int, **about: Any) -> Schema:
    """Return the body of a JSON merge patch (RFC 7396) of a record; `about`, such as its `example`."""
    content = {"schema": patch_schema(model), **about}
    by_type = {"application/merge-patch+json": content, "application/json": content}
    return limited({"required": True, "content": by_type}, max_bytes)


def patch_schema(model: type[BaseModel]) -> Schema:
    """Return the component of a merge patch: no member is required, and none has a default.

    Generated clients send defaults, and would reset the members that they leave out. Items of lists keep their
    required members, because a merge patch replaces lists as a whole.
    """
    schema = {name: value for name, value in json_schema(model).items() if name != "examples"}
    return _mergeable(named(f"{model.__name__}Patch", schema, "Patch"))


def _mergeable(schema: Schema, *, is_item: bool = False) -> Schema:
    merged: Schema = {}
    for name, value in schema.items():
        match name:
            case "default":
                continue
            case "required" if not is_item:
                continue
            case "properties":
                merged[name] = {each: _mergeable(member, is_item=is_item) for each, member in value.items()}
            case "items":
                merged[name] = _mergeable(value, is_item=True)
            case "anyOf" | "allOf":
                merged[name] = [_mergeable(choice, is_item=is_item) for choice in value]
            case _:
                merged[name] = value
    return merged


def written(model: type[BaseModel]) -> Schema:
    """Return the component of a model's schema."""
    return named(model.__name__, json_schema(model))


def json_schema(model: type[BaseModel], mode: JsonSchemaMode = "validation") -> Schema:
    """Return a model's JSON schema, generated once per process: each resource uses it several times."""
    return dict(_generated(model, mode))


@cache
def _generated(model: type[BaseModel], mode: JsonSchemaMode) -> Schema:
    return model.model_json_schema(mode=mode)


def named(name: str, schema: Schema, suffix: str = "") -> Schema:
    """Make a component of a self-contained schema, and of each definition, with `suffix` added to its name."""
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
