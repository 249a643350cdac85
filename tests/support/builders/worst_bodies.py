"""The largest and the worst bodies that a route's documented limits admit, generated from the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import orjson

from libs.contracts.limits import JSON_BODY
from libs.web.door.request_parsing import MAX_VALUES
from tests.support.models.openapi import resolved

MARKS: Final = "\u0301\u0316"
"""Combining marks of two classes: to order a run of them takes the square of its length, if it is not cut."""
JSON: Final = "application/json"
URLENCODED: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
MOST_SENT: Final = 10_485_760
"""Bytes of a body; larger ones, of files, are streamed."""
VALUES: Final = MAX_VALUES - 200
"""JSON values of a body, and then some levels: one more value, and it is refused before anybody looks at it."""
FREE: Final = 5_000
"""Members of a free-form object that documents no limit."""


class Body(NamedTuple):
    kind: str
    media_type: str
    content: bytes


def bodies_of(document: dict[str, Any], operation: dict[str, Any]) -> Iterator[Body]:
    """Yield the bodies of an operation that documents one."""
    described = resolved(document, operation["requestBody"])
    most = min(most_bytes(document, operation), MOST_SENT)
    for media_type, content in described["content"].items():
        schema = content.get("schema", {})
        if media_type == URLENCODED:
            yield from _forms(schema, most)
        elif media_type == MULTIPART:
            yield from _multipart(most)
        elif media_type == JSON or media_type.endswith("+json"):
            yield from _json(document, schema, most, media_type)
        elif media_type == "application/x-ndjson":
            yield Body("empty lines", media_type, b"\n" * most)
            yield Body("many lines", media_type, b"{}\n" * (most // 3))
        else:
            yield Body("bytes", media_type, b"\x89PNG\r\n\x1a\n" + bytes(most - 8))


def most_bytes(document: dict[str, Any], operation: dict[str, Any]) -> int:
    """Return the largest size of an operation's body. Raises `KeyError` if it documents none."""
    most: int = resolved(document, operation["requestBody"])["x-max-bytes"]
    return most


def unknown_members() -> Body:
    """Return the largest JSON body, for a route that documents none."""
    return Body("unknown members", JSON, b"{%s}" % _members(JSON_BODY - 2))


def _json(document: dict[str, Any], schema: dict[str, Any], most: int, media_type: str) -> Iterator[Body]:
    name = next(iter(resolved(document, schema).get("properties", {"a": {}})), "a").encode()
    yield Body("deep", media_type, b'{"%s":' % name + b"[" * (most // 2 - 10) + b"]" * (most // 2 - 10) + b"}")
    yield Body("levels", media_type, _filled(b'{"a":' * 90 + b"[", b"[],", b"[]]" + b"}" * 90, most))
    yield Body("unknown members", media_type, b"{%s}" % _members(most - 2))
    yield Body("one key", media_type, _filled(b"{", b'"%s":0,' % name, b'"%s":0}' % name, most))
    yield Body("wide numbers", media_type, _filled(b'{"%s":[' % name, b"12345678901234567890,", b"1]}", most))
    yield Body("items", media_type, _filled(b'{"%s":[' % name, b"{},", b"{}]}", most))
    yield Body("marks", media_type, _text_body(name, MARKS.encode(), most))
    yield Body("escapes", media_type, _text_body(name, b"\\u0301\\u0316", most))
    yield Body("largest", media_type, largest(document, schema, most))


def _forms(schema: dict[str, Any], most: int) -> Iterator[Body]:
    name = next(iter(schema.get("properties", {"a": {}})), "a").encode()
    yield Body("separators", URLENCODED, b"&" * most)
    yield Body("fields", URLENCODED, b"a=&" * (most // 3))
    yield Body("one field", URLENCODED, (b"%s=%%5B%%5D&" % name) * (most // (len(name) + 8)))
    yield Body("escapes", URLENCODED, b"%s=" % name + b"%CC%81%CC%96" * ((most - len(name) - 1) // 12))


def _multipart(most: int) -> Iterator[Body]:
    head = b'--b\r\ncontent-disposition: form-data; name="a"\r\n\r\n'
    media_type = f"{MULTIPART}; boundary=b"
    yield Body("parts", media_type, (head + b"\r\n") * (most // (len(head) + 2)))
    yield Body("line ends", media_type, head + b"\r\n-" * ((most - len(head)) // 3))


def largest(document: dict[str, Any], schema: dict[str, Any], most: int) -> bytes:
    """Return a body in which every text is a long run of marks and every list and free-form object is full.

    It is cut in half until it has at most `most` bytes.
    """
    budget = most
    while len(content := orjson.dumps(_value(document, schema, budget, 0))) > most:
        budget //= 2
    return content


def _value(document: dict[str, Any], schema: dict[str, Any], budget: int, number: int) -> Any:
    """Return a value of some `budget` bytes; `number` tells items of a list apart."""
    schema = resolved(document, schema)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            chosen = resolved(document, schema[several][0])
            return _value(document, chosen | {k: v for k, v in schema.items() if k != several}, budget, number)
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[-1])
    match schema.get("type"):
        case "string":
            return _text(schema, budget, number)
        case "integer" | "number":
            return schema.get("maximum", schema.get("default") or 1)
        case "boolean":
            return True
        case "array":
            return _items(document, schema, budget)
        case "object" | None:
            return _object(document, schema, budget)
    return None


def _text(schema: dict[str, Any], budget: int, number: int) -> str:
    if schema.get("format") == "date-time":
        return "2026-05-01T18:00:00Z"
    if "pattern" in schema or "format" in schema:
        return str((schema.get("examples") or [""])[0])
    length = min(schema.get("maxLength", 1_000), max(1, budget // 2 - 8))
    return (str(number) + MARKS * (length // 2))[:length]


def _items(document: dict[str, Any], schema: dict[str, Any], budget: int) -> list[Any]:
    each = max(64, budget // min(schema.get("maxItems", 1_000), 1_000))
    count = min(schema.get("maxItems", 1_000), max(1, budget // each))
    return [_value(document, schema.get("items", {}), each, number) for number in range(count)]


def _object(document: dict[str, Any], schema: dict[str, Any], budget: int) -> dict[str, Any]:
    properties = {name: each for name, each in schema.get("properties", {}).items() if not each.get("readOnly")}
    if properties:
        share = budget // len(properties)
        return {name: _value(document, each, share, 0) for name, each in properties.items()}
    size = min(schema.get("x-max-bytes", budget), budget)
    count = min(schema.get("maxProperties", FREE), schema.get("x-max-values", FREE) - 1, size // 12)
    return {f"k{number}": 0 for number in range(count)}


def _filled(begin: bytes, middle: bytes, end: bytes, most: int) -> bytes:
    return begin + middle * min((most - len(begin) - len(end)) // len(middle), VALUES) + end


def _text_body(name: bytes, marks: bytes, most: int) -> bytes:
    return b'{"%s":"a' % name + marks * ((most - len(name) - 8) // len(marks)) + b'"}'


def _members(most: int) -> bytes:
    return b",".join(b'"m%d":0' % number for number in range(min(most // 11, VALUES)))
