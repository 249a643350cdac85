"""The largest size of every input: texts, lists, free-form values, bodies, records, and contests.

The only table: schemas, the OpenAPI document, errors and the guide `deploy/guides/limits.md` derive from it.
Limits hold for writes. What was stored before a limit stays readable, and may be written again while it does not
grow.
"""

import json
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

INVISIBLE: Final = frozenset({"Cf", "Me", "Mn"})
"""Unicode categories of code points that add no visible character: format characters and combining marks."""


class Limit:
    """The largest size of one kind of value. Marks a member of a schema: `Annotated[str, TITLE]`.

    Schemas of requests document it. `size_check.py` compares it with the values of a write.
    """

    __slots__ = ()
    meaning: str
    """The values that it is for, as the guide lists them."""

    def sizes(self, value: Any) -> Iterator[tuple[int, int, str]]:
        """Yield size, largest size and unit of a value in parsed JSON; nothing for one of another type."""
        raise NotImplementedError

    def keywords(self) -> JsonSchemaValue:
        """Return its keywords of JSON Schema."""
        raise NotImplementedError

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(schema)
        return found | self.keywords() if handler.mode == "validation" else found


@dataclass(frozen=True, slots=True)
class TextLimit(Limit):
    """Limits the code points of a text, and its `visible` characters if those have a smaller limit."""

    meaning: str
    code_points: int
    visible: int = 0

    def sizes(self, value: Any) -> Iterator[tuple[int, int, str]]:
        if isinstance(value, str):
            yield len(value), self.code_points, "Unicode code points" if self.visible else "characters"
            if self.visible:
                shown = visible_characters(value[: self.code_points]) if len(value) > self.visible else len(value)
                yield shown, self.visible, "visible characters"

    def keywords(self) -> JsonSchemaValue:
        return {"maxLength": self.code_points} | ({"x-max-visible": self.visible} if self.visible else {})


@dataclass(frozen=True, slots=True)
class ListLimit(Limit):
    """Limits the items of a list, or the members of an object whose names the client chooses."""

    meaning: str
    items: int

    def sizes(self, value: Any) -> Iterator[tuple[int, int, str]]:
        if isinstance(value, list | Mapping):
            yield len(value), self.items, "items" if isinstance(value, list) else "members"

    def keywords(self) -> JsonSchemaValue:
        return {"maxItems": self.items}


@dataclass(frozen=True, slots=True)
class MapLimit(ListLimit):
    """As `ListLimit`, for objects."""

    def keywords(self) -> JsonSchemaValue:
        return {"maxProperties": self.items}


@dataclass(frozen=True, slots=True)
class FreeFormLimit(Limit):
    """Limits a free-form value: its JSON values at all levels, its levels, and its bytes as compact JSON."""

    meaning: str
    values: int
    depth: int
    json_bytes: int

    def sizes(self, value: Any) -> Iterator[tuple[int, int, str]]:
        if isinstance(value, str | list | Mapping):
            values, depth = extent(value)
            yield values, self.values, "JSON values"
            yield depth, self.depth, "levels"
            yield len(compact_json(value)), self.json_bytes, "bytes as JSON"

    def keywords(self) -> JsonSchemaValue:
        return {"x-max-values": self.values, "x-max-depth": self.depth, "x-max-bytes": self.json_bytes}


def visible_characters(text: str) -> int:
    """Return the number of code points but combining marks and format characters."""
    return sum(unicodedata.category(each) not in INVISIBLE for each in text)


def extent(value: Any) -> tuple[int, int]:
    """Return the number of values in parsed JSON, and of its levels."""
    level, values, depth = [value], 0, 0
    while level:
        values += len(level)
        depth += 1
        containers = [each for each in level if isinstance(each, Mapping | list)]
        level = [child for each in containers for child in (each.values() if isinstance(each, Mapping) else each)]
    return values, depth


def compact_json(value: Any) -> bytes:
    """Return parsed JSON as text, as records are stored; also with integers that cannot be stored."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


# texts, in Unicode code points
TITLE: Final = TextLimit("titles", 1_200, visible=300)
LINE: Final = TextLimit("short texts: labels, names, templates, ids of other systems", 1_000)
TAG: Final = TextLimit("tags, search terms, and other texts in lists", 2_000)
KEY: Final = TextLimit("keys of other records", 400)
ADDRESS: Final = TextLimit("URLs and e-mail addresses", 2_000)
DESCRIPTION: Final = TextLimit("descriptions and stories", 20_000)
ARTICLE_TEXT: Final = TextLimit("texts of articles' parts", 50_000)

# lists
TEXTS: Final = ListLimit("lists of texts, such as tags", 200)
PARTS: Final = ListLimit("lists of a record's parts, such as packages, days or an article's fields", 1_000)
KEYS: Final = ListLimit("lists of keys", 1_000)
WRITTEN_TOGETHER: Final = ListLimit("`timeslots` of the legacy API, written together", 100)
ADDED_PARTICIPANTS: Final = ListLimit("`add_participants` of the legacy API", 1_000)
MAPPED: Final = MapLimit("`mapping` of a vote source", 10_000)

# free-form values
OBJECT: Final = FreeFormLimit("free-form objects: `custom_data`, `style`, `data`, ...", 5_000, 32, 65_536)
CONTENT: Final = FreeFormLimit("free-form lists: `content`, `screens`, `fields`, ...", 20_000, 32, 262_144)

KINDS: Final[Mapping[str, tuple[Limit, ...]]] = {
    "Texts": (TITLE, LINE, TAG, KEY, ADDRESS, DESCRIPTION, ARTICLE_TEXT),
    "Lists": (TEXTS, PARTS, KEYS, WRITTEN_TOGETHER, ADDED_PARTICIPANTS, MAPPED),
    "Free-form values": (OBJECT, CONTENT),
}
"""All kinds of values, by the headings of the guide."""

RECORD_BYTES: Final = 262_144
"""Bytes of a record as compact JSON, without what the server adds to it."""
RECORDS: Final[Mapping[str, int]] = {
    "accounts": 16_384,
    "files": 131_072,
    "images": 131_072,
    "links": 16_384,
    "participants": 131_072,
    "shows": 16_384,
    "timeslots": 131_072,
    "vote_sources": 524_288,
}
"""Bytes of the records of resources with another limit, by resource."""
CONTEST_BYTES: Final = 8_388_608
"""Bytes of a contest with its participants and vote sources: processes that take votes keep them in memory."""

# bodies, in bytes
JSON_BODY: Final = 1_048_576
"""The largest JSON body, and the largest form without files."""
FORM_FIELDS_BODY: Final = 262_144
"""The fields of a form with a file, besides the file."""
BATCH_BODY: Final = 8 * JSON_BODY
VOTE_BODY: Final = 65_536
PURCHASE_BODY: Final = 65_536
COMMAND_BODY: Final = 16_384
"""A command with a few members: a refund, a new key, a reopening, the move of an item."""
LOG_IN_BODY: Final = 4_096
FORM_FIELDS: Final = 1_000
"""Fields of a form."""


def record_bytes(resource: str) -> int:
    """Return the largest size of a resource's records."""
    return RECORDS.get(resource, RECORD_BYTES)


def record_body(resource: str) -> int:
    """Return the largest body of a write of one record: JSON may write characters as six escaped ones."""
    return min(JSON_BODY, 6 * record_bytes(resource))
