"""Every body, text, list and free-form value of a request has a largest size in the tracked document.

A new route or field without a limit fails here: `libs/contracts/limits.py` has the kinds.
"""

from collections.abc import Iterator
from typing import Any, Final

from libs.contracts.limits import BATCH_BODY, COMMAND_BODY, JSON_BODY, LOG_IN_BODY
from libs.web.documents.openapi import MAX_BYTES
from tests.support.models.openapi import read_tracked, resolved

DOCUMENT: Final = read_tracked()
BODIES: Final = {
    (path, method): operation["requestBody"]
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if "requestBody" in operation
}
BOUNDED: Final = {"maxLength", "pattern", "enum", "const", "contentSchema", MAX_BYTES}
SHORT_FORMATS: Final = {"date-time", "binary", "ipv4", "ipv6"}
FORMS: Final = "application/x-www-form-urlencoded", "multipart/form-data"
FILES: Final = "/files/", "/images", "/legacy/images"


def unbounded(schema: Any, place: str, above: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the places of values without a largest size."""
    if not isinstance(schema, dict) or MAX_BYTES in schema:
        return
    if "$ref" in schema:
        if schema["$ref"] not in above:
            yield from unbounded(resolved(DOCUMENT, schema), place, (*above, schema["$ref"]))
        return
    for kind in ("anyOf", "allOf", "oneOf"):
        for each in schema.get(kind, ()):
            yield from unbounded(each, place, above)
    types = schema.get("type", ())
    types = {types} if isinstance(types, str) else set(types)
    if "string" in types and not BOUNDED & schema.keys() and schema.get("format") not in SHORT_FORMATS:
        yield place
    if "array" in types:
        if "maxItems" not in schema:
            yield place
        yield from unbounded(schema.get("items"), f"{place}[]", above)
    if "object" in types:
        others = schema.get("additionalProperties")
        if isinstance(others, dict) and "maxProperties" not in schema:
            yield place
        if "properties" not in schema and not isinstance(others, dict):
            yield place
        yield from unbounded(others, f"{place}.*", above)
    for name, member in schema.get("properties", {}).items():
        yield from unbounded(member, f"{place}.{name}", above)


def test_every_value_of_every_body_has_a_largest_size() -> None:
    found = {
        place
        for (path, method), body in BODIES.items()
        for kind, content in body["content"].items()
        if kind not in FORMS or "application/json" not in body["content"]  # forms have the JSON's parameters
        for place in unbounded(content["schema"], f"{method} {path} ({kind})")
    }
    assert not found, "\n".join(sorted(found))


def test_every_body_has_a_largest_size_and_those_without_a_key_a_small_one() -> None:
    sizes = {name: body.get(MAX_BYTES) for name, body in BODIES.items()}
    assert None not in sizes.values()
    keyless = {
        name: size
        for name, size in sizes.items()
        if DOCUMENT["paths"][name[0]][name[1]]["security"] == [] and not name[0].startswith(FILES)
    }
    assert keyless == {("/dashboard/session", "post"): LOG_IN_BODY}
    batch = "/contests/{contest_key}/votes/batch", "post"
    others = {size for (path, method), size in sizes.items() if not path.startswith(FILES)} - {sizes[batch]}
    assert sizes[batch] == BATCH_BODY
    assert COMMAND_BODY in others
    assert max(others) == JSON_BODY
