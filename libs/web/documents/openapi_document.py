"""OpenAPI document of an app: the routers' descriptions, deduplicated components and required permissions."""

import asyncio
import gzip
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import orjson
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from libs.web.documents.described_route import DescribedRoute
from libs.web.documents.docs_pages import DOCUMENT
from libs.web.documents.openapi import (
    CODES,
    COMPONENT,
    MAX_BYTES,
    PERMISSION,
    Schema,
    limit_answers,
    problem,
)
from libs.web.door.rate_limits import NEVER_LIMITED
from libs.web.errors import TABLE
from libs.web.server.asgi_routes import PlainRoute

LEGACY_TAG: Final = "legacy"
KEY_SCHEMES: Final[Schema] = {
    "ApiKey": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "tk_...",
        "description": "An API key of the account; its permissions are set when it is created.",
    },
    "ServiceBrand": {
        "type": "apiKey",
        "in": "header",
        "name": "service-brand",
        "description": "Legacy: the account.",
    },
    "ServiceKey": {
        "type": "apiKey",
        "in": "header",
        "name": "service-key",
        "description": "Legacy: an API key of that account.",
    },
}
FRAMEWORKS_OWN: Final = "Validation Error"
"""Description of FastAPI's default 422 response; handlers here validate requests themselves."""
COMPONENTS: Final = "#/components/"
PARTS: Final = {"/openapi/current.json": False, "/openapi/legacy.json": True}
"""Paths of the documents of one API: whether it is the legacy one. Generators fail at the legacy one's forms."""
EXAMPLES: Final = ("example", "examples")
TYPED: Final = frozenset({"type", "$ref", "anyOf", "allOf", "oneOf", "const", "enum"})
OF_KEYS: Final = ("unauthorized", "forbidden", "validation_failed", "views_unavailable")
OF_BODIES: Final = ("malformed_json", "unsupported_media_type", "payload_too_large", "validation_failed")
OF_HEADERS: Final = {"Idempotency-Key": "idempotency_key_reused", "If-Match": "version_conflict"}


VARY: Final = {"Vary": "Accept-Encoding"}


def accepts_gzip(accepted: str) -> bool:
    """Return whether the header `Accept-Encoding` names gzip, other than to refuse it."""
    for coding in accepted.lower().split(","):
        name, _, weight = coding.partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False


class DocumentedApp(FastAPI):
    """Builds the app's document once, in the order of `openapi_tags`, and serves it at `DOCUMENT`.

    An operation's id is its handler's name, `cast_vote`: generated clients name their methods after it.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(openapi_url=None, docs_url=None, redoc_url=None, **options)
        self._documents: dict[str, tuple[bytes, bytes]] = {}
        self._building = asyncio.Lock()
        for path in (DOCUMENT, *PARTS):
            self.router.routes.append(PlainRoute(path, self._send_document, include_in_schema=False))

    async def _send_document(self, request: Request) -> Response:
        """Respond with the same bytes, a tenth of them to clients that accept gzip: the first request builds them,
        and clients that read nothing share them."""
        async with self._building:
            if not self._documents:
                self._documents = await asyncio.to_thread(self._built)
        plain, compressed = self._documents[request.url.path]
        if not accepts_gzip(request.headers.get("Accept-Encoding", "")):
            return Response(plain, headers=VARY, media_type="application/json")
        return Response(compressed, headers=VARY | {"Content-Encoding": "gzip"}, media_type="application/json")

    def _built(self) -> dict[str, tuple[bytes, bytes]]:
        """Return the document and its parts by path, each as it is and compressed."""
        whole = self.openapi()
        parts = {path: part_of(whole, is_legacy=is_legacy) for path, is_legacy in PARTS.items()}
        encoded = {path: orjson.dumps(document) for path, document in {DOCUMENT: whole, **parts}.items()}
        return {path: (document, gzip.compress(document, mtime=0)) for path, document in encoded.items()}

    def openapi(self) -> Schema:
        if self.openapi_schema is None:
            for route in self.routes:
                if isinstance(route, DescribedRoute):
                    route.complete_description()
                if isinstance(route, APIRoute):
                    route.operation_id = route.operation_id or route.name
                    route.summary = _titled(route, route.summary or route.name.replace("_", " ").capitalize())
            self.openapi_schema = described(super().openapi())
        return self.openapi_schema


def _titled(route: APIRoute, title: str) -> str:
    """Return a title that no other operation has: legacy ones do the same as those of the current API."""
    if LEGACY_TAG not in route.tags:
        return title
    environment = "Legacy test: " if str(route.operation_id).startswith("legacy_test_") else "Legacy: "
    return f"{environment}{title[0].lower()}{title[1:]}"


def described(document: Schema) -> Schema:
    """Return FastAPI's document with its marks (`x-component`, `x-permission`) resolved.

    Raises `ValueError` for a body without a largest size.
    """
    order = [tag["name"] for tag in document.get("tags", ())]
    for name, path in document["paths"].items():
        for method, operation in path.items():
            if "requestBody" in operation and MAX_BYTES not in operation["requestBody"]:
                raise ValueError(f"{method} {name}: its body has no largest size (`limited`)")
            _describe_permission(operation)
            _describe_parameters(operation)
            _describe_problems(method, operation)
            if name not in NEVER_LIMITED:
                _describe_limits(operation)
            if operation["responses"].get("422", {}).get("description") == FRAMEWORKS_OWN:
                del operation["responses"]["422"]
            operation["responses"] = dict(sorted(operation["responses"].items()))
    document["paths"] = dict(sorted(document["paths"].items(), key=lambda entry: _rank(entry[1], order)))
    components = document.pop("components", {}) | {"securitySchemes": KEY_SCHEMES}
    marked = [
        {COMPONENT: f"schemas/{name}"} | schema
        for name, schema in components.pop("schemas", {}).items()
        if name not in ("HTTPValidationError", "ValidationError")
    ]
    document_: Schema
    document_, *_ = _with_references([document, *marked], components)
    return document_ | {
        "components": {kind: dict(sorted(components[kind].items())) for kind in sorted(components)}
    }


def part_of(document: Schema, *, is_legacy: bool) -> Schema:
    """Return the document of the legacy API, or of the current one, with the components that it uses."""
    paths = {
        name: path
        for name, path in document["paths"].items()
        if is_legacy is any(LEGACY_TAG in operation.get("tags", ()) for operation in path.values())
    }
    tags = [tag for tag in document.get("tags", ()) if is_legacy is (tag["name"] == LEGACY_TAG)]
    used, found = dict[str, None](), [paths]
    while found:
        for reference in _references(found.pop()):
            if reference not in used:
                used[reference] = None
                kind, name = reference.removeprefix(COMPONENTS).split("/")
                found.append(document["components"][kind][name])
    components = {
        kind: {name: each for name, each in named.items() if f"{COMPONENTS}{kind}/{name}" in used}
        for kind, named in document["components"].items()
        if kind != "securitySchemes"
    }
    schemes = {name: each for name, each in KEY_SCHEMES.items() if is_legacy is (name != "ApiKey")}
    kept = {kind: named for kind, named in components.items() if named} | {"securitySchemes": schemes}
    return document | {"tags": tags, "paths": paths, "components": kept}


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _references(item)
    elif isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference
        for name, item in value.items():
            if name not in EXAMPLES:
                yield from _references(item)


def _rank(path: Schema, order: Sequence[str]) -> int:
    """Return the position of a path's first tag in `order`."""
    tags = [tag for operation in path.values() for tag in operation.get("tags", ())]
    return min((order.index(tag) for tag in tags if tag in order), default=len(order))


def _describe_permission(operation: Schema) -> None:
    permission = operation.get(PERMISSION)
    if permission is None:
        operation["security"] = []
        return
    said = operation.get("description", "")
    operation["description"] = f"{said}\n\nNeeds the permission `{permission}`.".strip()
    legacy = LEGACY_TAG in operation.get("tags", ())
    operation["security"] = [{"ServiceBrand": [], "ServiceKey": []}] if legacy else [{"ApiKey": []}]


def _describe_problems(method: str, operation: Schema) -> None:
    """Complete the errors: those of callers' keys, and of the body and headers that the operation has."""
    codes = {code for answer in operation["responses"].values() for code in answer.pop(CODES, ())}
    if LEGACY_TAG in operation.get("tags", ()):
        return
    if PERMISSION in operation:
        codes.update(OF_KEYS)
        if method != "get":
            codes.add("log_unavailable")
    if "requestBody" in operation:
        is_json = "*/*" not in operation["requestBody"]["content"]
        codes.update(OF_BODIES if is_json else OF_BODIES[1:])
    headers = {parameter["name"] for parameter in operation.get("parameters", ())}
    codes.update(code for name, code in OF_HEADERS.items() if name in headers)
    if "views_unavailable" in codes:
        codes.add("overloaded")  # also the answer to too many connections
    by_status = groupby(sorted(codes, key=lambda code: TABLE[code].status), lambda code: TABLE[code].status)
    operation["responses"] |= {str(status): problem(some) for status, some in by_status}


def _describe_limits(operation: Schema) -> None:
    legacy = LEGACY_TAG in operation.get("tags", ())
    for status, answer in limit_answers(legacy=legacy, has_body="requestBody" in operation).items():
        operation["responses"].setdefault(status, answer)


def _describe_parameters(operation: Schema) -> None:
    """Move descriptions of schemas to their parameters, and describe path parameters by their names.

    Such names are `contest_key`, `vote_id`, `source`.
    """
    for parameter in operation.get("parameters", ()):
        schema = dict(parameter.get("schema", {}))
        given = [each for each in schema.pop("anyOf", ()) if each != {"type": "null"}]  # left out, not null
        schema |= given[0] if len(given) == 1 else {"anyOf": given} if given else {}
        said = parameter.get("description") or schema.get("description", "")
        if not said and parameter["in"] == "path":
            noun, _, kind = parameter["name"].rpartition("_")
            said = f"{kind.capitalize()} of the {noun.replace('_', ' ')}." if noun else f"Name of the {kind}."
        schema.pop("description", None)
        parameter.update({"description": said} | ({"schema": schema} if schema else {}))


def _with_references(value: Any, components: Schema) -> Any:
    """Return `value` with references instead of marked schemas, and add those to `components` by name.

    Raises `ValueError` if two different components have the same name.
    """
    if isinstance(value, list):
        return [_with_references(item, components) for item in value]
    if not isinstance(value, dict):
        return value
    place = value.get(COMPONENT)
    found = {
        key: item if key in EXAMPLES else _with_references(item, components)
        for key, item in value.items()
        if key != COMPONENT
    }
    for schema in (*found.get("properties", {}).values(), found.get("schema"), found.get("contentSchema")):
        if isinstance(schema, dict):
            schema.pop("title", None)  # pydantic's default repeats the name
            if isinstance(schema.get("default"), dict):
                del schema["default"]  # generators leave out the operations of such schemas
    found = _with_nulls(_nullable(found))
    if place is None:
        return found
    kind, name = place.split("/", 1)
    if "title" in found:
        found["title"] = name  # generators name classes after it, so it must be unique
    if components.setdefault(kind, {}).setdefault(name, found) != found:
        raise ValueError(f"two different components have the name {place}")
    return {"$ref": f"#/components/{place}"}


def _nullable(schema: Schema) -> Schema:
    """Return the schema in short form if it is a plain type or null."""
    choices = schema.get("anyOf", [])
    if len(choices) != 2 or choices[1] != {"type": "null"} or "enum" in choices[0]:
        return schema
    others = {key: value for key, value in schema.items() if key != "anyOf"}
    if not choices[0].keys() & TYPED:
        return {**choices[0], **others}  # anything, and null as well: generators cannot name an untyped choice
    if choices[0].keys() == {"anyOf"}:
        return {"anyOf": [*choices[0]["anyOf"], choices[1]], **others}
    if not isinstance(choices[0].get("type"), str):
        return schema
    return {**choices[0], "type": [choices[0]["type"], "null"], **others}


def _with_nulls(schema: Schema) -> Schema:
    """Return the schema with the nulls of its examples, which FastAPI leaves out."""
    examples, members = schema.get("examples"), schema.get("properties", {})
    if not isinstance(examples, list):
        return schema
    nulls = {name: None for name in schema.get("required", ()) if _takes_null(members[name])}
    return schema | {"examples": [nulls | one if isinstance(one, dict) else one for one in examples]}


def _takes_null(schema: Schema) -> bool:
    return "null" in schema.get("type", ()) or {"type": "null"} in schema.get("anyOf", ())
