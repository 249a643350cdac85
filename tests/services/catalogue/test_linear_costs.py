"""Validating, writing and showing a record costs time in proportion to the size of each member, not to its square.

The members are those of the schemas: a new one is tested without a change here.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple

import orjson
import pytest
from pydantic import BaseModel

import services.gateway.app  # noqa: F401 (defines all forms)
from libs.catalogue.references import collected
from libs.catalogue.resource_definition import Resource, Target
from libs.catalogue.resource_table import RESOURCES
from libs.catalogue.schemas.base import Document, Record, unknown_members
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import ValidationFailed, checked
from libs.legacy.articles import ARTICLE, DRAFT
from libs.legacy.bodies import from_form
from libs.legacy.contests import CONTEST
from libs.legacy.conventions import CONVENTION
from libs.legacy.feeds import FEED
from libs.legacy.images import IMAGE
from libs.legacy.participants import PARTICIPANT
from libs.legacy.timeslots import TIMESLOT
from libs.legacy.translator import Translator
from services.catalogue.routes import titled

JsonSchema = dict[str, Any]
MOST: Final = 2.5
"""How much more CPU time twice the size may take."""
FIRST: Final = 4
"""Rounds before the first comparison."""
WITHIN_S: Final = 60.0
"""Time for more rounds: on a busy machine the larger work is disturbed for longer than the smaller."""
LEAST_S: Final = 0.0005
"""Time below which nothing is measured."""
LETTERS, ITEMS = 3_000, 800
AT: Final = 1_770_000_000_000_000
TRANSLATORS: Final = {
    "articles": ARTICLE,
    "contests": CONTEST,
    "conventions": CONVENTION,
    "drafts": DRAFT,
    "feeds": FEED,
    "images": IMAGE,
    "participants": PARTICIPANT,
    "timeslots": TIMESLOT,
}


class Place(NamedTuple):
    """A member that holds a text, a list or a free-form object; "*" stands for an item of a list."""

    name: str
    path: tuple[str, ...]
    schema: JsonSchema
    whole: JsonSchema

    def body(self, size: int) -> Document:
        """Return a body in which this member has `size` letters, items or members."""
        return self._around(self.whole, self.path, sized(self.whole, self.schema, size))

    def _around(self, schema: JsonSchema, path: tuple[str, ...], value: Any) -> Any:
        if not path:
            return value
        found = resolved(self.whole, schema)
        if path[0] == "*":
            return [self._around(found["items"], path[1:], value)]
        needed = {name: least(self.whole, found["properties"][name], 0) for name in found.get("required", ())}
        return needed | {path[0]: self._around(found["properties"][path[0]], path[1:], value)}


def resolved(whole: JsonSchema, schema: JsonSchema) -> JsonSchema:
    """Return the schema without references and alternatives."""
    while True:
        if "$ref" in schema:
            schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
        elif "anyOf" in schema:
            schema = schema["anyOf"][0]
        else:
            return schema


def places(name: str, whole: JsonSchema, at: JsonSchema, path: tuple[str, ...] = ()) -> Iterator[Place]:
    schema = resolved(whole, at)
    kind = schema.get("type", "object")
    if kind == "array":
        yield Place(name, path, schema, whole)
        yield from places(name, whole, schema["items"], (*path, "*"))
    elif kind == "string" and not {"enum", "format", "const"} & schema.keys():
        yield Place(name, path, schema, whole)
    elif kind == "object":
        if path and path[-1] != "*" and schema.get("additionalProperties", True) is not False:
            yield Place(name, path, schema, whole)
        for member, inner in schema.get("properties", {}).items():
            if not str(inner.get("description", "")).startswith("Set by the server"):
                yield from places(name, whole, inner, (*path, member))


def sized(whole: JsonSchema, schema: JsonSchema, size: int) -> Any:
    kind = schema.get("type", "object")
    if kind == "array":
        return [least(whole, schema["items"], index) for index in range(size)]
    if kind == "string":
        return "a" + "\u0301" * (size // 2) + "\u0316" * (size // 2)
    return {f"m{index}": index for index in range(size)}


def least(whole: JsonSchema, schema: JsonSchema, index: int) -> Any:
    """Return a small value; those of different indices differ."""
    found = resolved(whole, schema)
    match found.get("type"):
        case "object":
            members = found.get("properties", {})
            named = {*found.get("required", ()), *({"term"} & members.keys())}
            return {name: least(whole, members[name], index) for name in sorted(named)}
        case "array":
            return []
        case "integer" | "number":
            return index % 5
        case "boolean":
            return True
        case _:
            return found["enum"][0] if "enum" in found else f"t{index}"


def cases() -> Iterator[Place]:
    for name, row in RESOURCES.items():
        yield from places(name, schema := row.schema.model_json_schema(mode="validation"), schema)


def turned(body: Any) -> Any:
    """Return the body with all lists reversed."""
    if isinstance(body, dict):
        return {name: turned(value) for name, value in body.items()}
    return [turned(item) for item in reversed(body)] if isinstance(body, list) else body


def pass_through(row: Resource, body: Document) -> Callable[[], None]:
    """Return the work of a record's creation, its change to the same items in another order, and its reads."""
    patch = turned(body)

    def work() -> None:
        with suppress(ValidationFailed):
            unknown_members(row.schema, patch)
        with suppress(ValidationFailed):
            before = written(row, None, body)
            with suppress(ValidationFailed):
                collected(RESOURCES, row, before, "above", "own")
            after = written(row, stored(before), row.merged(before, patch))
            read(row, stored(after))

    return work


def stored(document: Document) -> Stored:
    return Stored("own", 1, 1, 1, 1, "above", orjson.dumps(document).decode())


def written(row: Resource, before: Stored | None, body: Document) -> Document:
    document = Target(RESOURCES, row, "own", "above", before, stored({}), AT).document(body)
    RESOURCES.offers(row, document, "own")
    return document


def read(row: Resource, stored: Stored) -> None:
    row.schema.model_validate(stored.document).shown()
    [is_titled] = titled("zz")
    is_titled(stored)


def translated(translator: Translator, body: Document) -> Callable[[], None]:
    """Return the work of a legacy creation and update, and of a form with the same parameters."""
    texts = [
        (name, text if isinstance(text, str) else orjson.dumps(text).decode())
        for name, value in body.items()
        for text in (value if isinstance(value, list) else [value])
    ]

    def work() -> None:
        from_form(texts, translator.parameters)
        with suppress(ValidationFailed):
            before = translator.written(body, None)
            translator.written(turned(body), before)

    return work


def is_linear(once: Callable[[], None], twice: Callable[[], None], within_s: float = WITHIN_S) -> bool:
    """Compare the least times of several rounds: more rounds while other processes seem to disturb."""
    least_once = least_twice = float("inf")
    ends = time.monotonic() + within_s
    gc.disable()
    try:
        for number in count(1):
            least_once, least_twice = min(least_once, _cpu_s(once)), min(least_twice, _cpu_s(twice))
            if number >= FIRST and least_twice <= MOST * least_once + LEAST_S:
                return True
            if number >= FIRST and time.monotonic() > ends:
                break
    finally:
        gc.enable()
    return False


def _cpu_s(work: Callable[[], None]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def identified(place: object) -> str:
    return "/".join((place.name, *place.path)) if isinstance(place, Place) else ""


def size_of(place: Place) -> int:
    return LETTERS if place.schema.get("type") == "string" else ITEMS


@pytest.mark.parametrize("place", [*cases()], ids=identified)
def test_twice_the_size_of_a_member_costs_twice_the_time(place: Place) -> None:
    row, size = RESOURCES[place.name], size_of(place)
    once, twice = (pass_through(row, place.body(many)) for many in (size, 2 * size))
    assert is_linear(once, twice)


def parameters() -> Iterator[Place]:
    for name, translator in TRANSLATORS.items():
        whole = {"type": "object", "properties": dict(translator.parameters), "$defs": {}}
        yield from places(name, whole, whole)


@pytest.mark.parametrize("place", [*parameters()], ids=identified)
def test_twice_the_size_of_a_legacy_parameter_costs_twice_the_time(place: Place) -> None:
    translator, size = TRANSLATORS[place.name], size_of(place)
    once, twice = (translated(translator, place.body(many)) for many in (size, 2 * size))
    assert is_linear(once, twice)


def forms() -> Iterator[tuple[type[BaseModel], Place]]:
    """Yield the places of all bodies that are no records: their models refuse unknown members."""
    left, found = [BaseModel], set[type[BaseModel]]()
    while left:
        kinds = left.pop().__subclasses__()
        left += kinds
        found |= {kind for kind in kinds if kind.model_config.get("extra") == "forbid"}
    for form in sorted(found, key=lambda kind: (kind.__module__, kind.__qualname__)):
        if form.__module__.startswith("services.") and not issubclass(form, Record):
            schema = form.model_json_schema(mode="validation")
            yield from ((form, place) for place in places(form.__qualname__, schema, schema))


@pytest.mark.parametrize(("form", "place"), [*forms()], ids=identified)
def test_twice_the_size_of_a_form_s_member_costs_twice_the_time(form: type[BaseModel], place: Place) -> None:
    def work(body: Document) -> None:
        with suppress(ValidationFailed):
            checked(form, body)

    size = size_of(place)
    once, twice = (partial(work, place.body(many)) for many in (size, 2 * size))
    assert is_linear(once, twice)


def test_a_quadratic_function_is_noticed() -> None:
    def search(size: int) -> Callable[[], None]:
        items = list(map(str, range(size)))

        def work() -> None:
            assert [items.index(item) for item in items][-1] == size - 1

        return work

    assert not is_linear(search(ITEMS), search(2 * ITEMS), within_s=1)
