"""The OpenAPI document of an app: what its routers say, with every component once, and who may call what."""

from collections.abc import Sequence
from typing import Any, Final

from fastapi import FastAPI

from libs.web.openapi import COMPONENT, PERMISSION, Schema, limit_answers
from libs.web.rate_limits import NEVER_LIMITED

LEGACY_TAG: Final = "legacy"
KEY_SCHEMES: Final[Schema] = {
    "ApiKey": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "tk_...",
        "description": "An API key of the account; its permissions are chosen when it is made.",
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
"""An answer that FastAPI describes where nobody else does; handlers here read and check for themselves."""
EXAMPLES: Final = ("example", "examples")


class DocumentedApp(FastAPI):
    """An app whose document is put together once, in the order of its `openapi_tags`."""

    def openapi(self) -> Schema:
        if self.openapi_schema is None:
            self.openapi_schema = described(super().openapi())
        return self.openapi_schema


def described(document: Schema) -> Schema:
    """The document as FastAPI makes it, with its marks (`x-component`, `x-permission`) carried out."""
    order = [tag["name"] for tag in document.get("tags", ())]
    for name, path in document["paths"].items():
        for operation in path.values():
            _say_who_may_call(operation)
            _name_what_is_in_the_path(operation)
            if name not in NEVER_LIMITED:
                _say_what_is_limited(operation)
            if operation["responses"].get("422", {}).get("description") == FRAMEWORKS_OWN:
                del operation["responses"]["422"]
    document["paths"] = dict(sorted(document["paths"].items(), key=lambda entry: _rank(entry[1], order)))
    components = document.pop("components", {}) | {"securitySchemes": KEY_SCHEMES}
    for name in ("HTTPValidationError", "ValidationError"):
        components.get("schemas", {}).pop(name, None)
    gathered: Schema = _gathered(document, components)
    return gathered | {"components": {kind: dict(sorted(components[kind].items())) for kind in sorted(components)}}


def _rank(path: Schema, order: Sequence[str]) -> int:
    """Where a path stands among the tags."""
    tags = [tag for operation in path.values() for tag in operation.get("tags", ())]
    return min((order.index(tag) for tag in tags if tag in order), default=len(order))


def _say_who_may_call(operation: Schema) -> None:
    permission = operation.get(PERMISSION)
    if permission is None:
        operation["security"] = []
        return
    said = operation.get("description", "")
    operation["description"] = f"{said}\n\nNeeds the permission `{permission}`.".strip()
    legacy = LEGACY_TAG in operation.get("tags", ())
    operation["security"] = [{"ServiceBrand": [], "ServiceKey": []}] if legacy else [{"ApiKey": []}]


def _say_what_is_limited(operation: Schema) -> None:
    legacy = LEGACY_TAG in operation.get("tags", ())
    for status, answer in limit_answers(legacy=legacy, has_body="requestBody" in operation).items():
        operation["responses"].setdefault(status, answer)


def _name_what_is_in_the_path(operation: Schema) -> None:
    """By the parameters' names, which say it all: `contest_key`, `vote_id`, `source`."""
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path" and "description" not in parameter:
            noun, _, kind = parameter["name"].rpartition("_")
            said = f"{kind.capitalize()} of the {noun.replace('_', ' ')}." if noun else f"Name of the {kind}."
            parameter["description"] = said


def _gathered(value: Any, components: Schema) -> Any:
    """`value` with references in place of what is marked; that goes to the components, each name once.

    Raises ValueError where one name stands for two things.
    """
    if isinstance(value, list):
        return [_gathered(item, components) for item in value]
    if not isinstance(value, dict):
        return value
    place = value.get(COMPONENT)
    found = {
        key: item if key in EXAMPLES else _gathered(item, components)
        for key, item in value.items()
        if key != COMPONENT
    }
    for schema in (*found.get("properties", {}).values(), found.get("schema")):
        if isinstance(schema, dict):
            schema.pop("title", None)  # pydantic's own, which says the name again
    found = _nullable(found)
    if place is None:
        return found
    kind, name = place.split("/", 1)
    if components.setdefault(kind, {}).setdefault(name, found) != found:
        raise ValueError(f"two different components are called {place}")
    return {"$ref": f"#/components/{place}"}


def _nullable(schema: Schema) -> Schema:
    """The same in fewer words where the schema is one plain type, or null."""
    choices = schema.get("anyOf", [])
    if len(choices) != 2 or choices[1] != {"type": "null"} or "enum" in choices[0]:
        return schema
    if not isinstance(choices[0].get("type"), str):
        return schema
    others = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**choices[0], "type": [choices[0]["type"], "null"], **others}
