"""Validation of style objects in the legacy API; in the current API they are free-form."""

from collections.abc import Mapping
from typing import Any, Final

from libs.catalogue.resource_definition import Document
from libs.catalogue.schemas.content import StyleObject
from libs.contracts.validation import Problem, ValidationFailed, checked
from libs.legacy.translator import JsonSchema, inlined

STYLE: Final[JsonSchema] = inlined(StyleObject.model_json_schema()) | {
    "description": "The style. Unknown members cannot be changed.",
}
"""JSON schema of a `style` parameter."""


def style_problems(body: Mapping[str, Any], before: Document | None) -> list[Problem]:
    """Return the problems of `style` in the body; members with an unchanged value are not checked."""
    given = body.get("style")
    if not isinstance(given, dict):
        return []
    held = (before or {}).get("style", {})
    try:
        checked(StyleObject, {name: value for name, value in given.items() if held.get(name) != value})
    except ValidationFailed as error:
        return [Problem(f"/style{each['pointer']}", each["message"]) for each in error.data["errors"]]
    return []


def styled(document: Document, body: Mapping[str, Any], before: Document | None) -> Document:
    """Apply the style of a body without `style_problems` to `document`.

    Members unknown to the legacy API keep their value.
    """
    given = body.get("style")
    if not isinstance(given, dict):
        return document
    held = (before or {}).get("style", {})
    unknown = {name: value for name, value in held.items() if name not in StyleObject.model_fields}
    return document | {"style": unknown | {name: value for name, value in given.items() if value is not None}}
