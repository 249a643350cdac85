"""Translation between legacy and canonical members by one table per resource.

A legacy write changes only members in the table, so members of the current API survive.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Final

from pydantic import BaseModel

from libs.catalogue.schemas.base import Document, Record
from libs.contracts.validation import Problem, ValidationFailed, checked
from libs.web.documents.openapi import COMPONENT, json_schema, named

JsonSchema = dict[str, Any]
Parameters = Callable[[], Mapping[str, JsonSchema]]
"""Returns the JSON schemas of parameters by name, generated on the first call: they delay a process's start."""

PLACE: Final = re.compile(r"/\d+")
CANONICAL_DEFAULT: Final[Any] = object()


@dataclass(frozen=True, slots=True)
class Field:
    """A legacy member and its canonical member, as dotted paths in the read shape and in the canonical record.

    The last step of `legacy` is also the write parameter. `reason` explains a difference between the two.
    """

    legacy: str
    canonical: str
    reason: str = ""
    _: KW_ONLY
    default: Any = CANONICAL_DEFAULT
    """Default of a create, if it differs from the canonical default."""
    allowed: tuple[Any, ...] = ()
    """Values that a write may set; other values can only stay unchanged."""
    reads: bool = True
    """False if the read shape has a derived value instead."""
    writes: bool = True
    names_record: bool = False
    """The value is another record's key; an empty string means none."""
    embeds: tuple[str, str] | None = None
    """The read shape's member that embeds the record instead of its key, and the key's name in the record.
    A write without the parameter takes the key from there."""
    items: "tuple[Field, ...]" = ()
    """Members of a list's items, with paths within an item. Items are matched by their `id`."""

    @classmethod
    def same(cls, *names: str) -> "tuple[Field, ...]":
        """Return members that are alike in both APIs."""
        return tuple(cls(name, name) for name in names)

    @property
    def parameter(self) -> str:
        return self.legacy.rpartition(".")[2]


class Translator:
    """Translates one resource in both directions by its table.

    `own` returns further parameters, which the resource's module reads itself.
    """

    def __init__(self, schema: type[Record], fields: Sequence[Field], own: Parameters = dict) -> None:
        self.fields = fields
        self._schema = schema
        self._own = own
        self._written = {field.parameter: field for field in fields if field.writes}

    @cached_property
    def parameters(self) -> Mapping[str, JsonSchema]:
        """JSON schemas of the write parameters, for parsing forms and for the documentation."""
        whole = self._schema.model_json_schema(mode="validation")
        return {name: _parameter(whole, whole, field) for name, field in self._written.items()} | dict(self._own())

    def shape(self) -> dict[str, JsonSchema]:
        """Return the JSON schemas of the members of the read shape in the table, from the canonical schema."""
        return shape_of(self.fields, self._schema)

    def read(self, record: Record) -> Document:
        """Return the members of the read shape in the table."""
        return _read(self.fields, record.shown())

    def written(
        self, body: Mapping[str, Any], before: Document | None, others: Iterable[Problem] = ()
    ) -> Document:
        """Apply the parameters in `body` to the canonical document `before` (None: new record).

        Omitted parameters keep their value, null resets to the default, unknown parameters are ignored. The
        returned document is not validated. Raises `ValidationFailed` with `others` and the problems of legacy
        rules first, then those of the schema.
        """
        document: Document = {} if before is None else deepcopy(before)
        problems = list(others)
        for name, field in self._written.items():
            value = _given(field, body)
            is_new = before is None and field.default is not CANONICAL_DEFAULT
            if value is None and name not in body and not is_new:
                continue
            value = field.default if value is None else value
            held = _get(document, field.canonical)
            if value is CANONICAL_DEFAULT:
                _clear(document, field.canonical)
                continue
            if field.allowed and value not in field.allowed and value != held:
                problems.append(Problem(f"/{name}", f"must be one of {', '.join(field.allowed)}"))
                continue
            _put(document, field.canonical, _items(field.items, value, held) if field.items else value)
        if problems:
            raise ValidationFailed([*problems, *self._schema_problems(document)])
        return document

    def _schema_problems(self, document: Document) -> list[Problem]:
        """Return the schema's problems of a document, with legacy names."""
        try:
            checked(self._schema, document)
        except ValidationFailed as error:
            return self._renamed_problems(error)
        return []

    def _renamed_problems(self, error: ValidationFailed) -> list[Problem]:
        return [
            Problem(self._legacy(each.get("pointer", "")), each["message"], each.get("parameter", ""))
            for each in error.data["errors"]
        ]

    def renamed(self, error: ValidationFailed) -> ValidationFailed:
        """Return the error with legacy member names; pointers of a batch start with the item's index."""
        problems = self._renamed_problems(error)
        renamed = ValidationFailed(problems, "; ".join(_message(problem) for problem in problems))
        renamed.code = error.code
        return renamed

    def _legacy(self, pointer: str) -> str:
        """Translate a canonical pointer to the legacy parameter; "" if there is none."""
        if (index := PLACE.match(pointer)) is not None:
            return index[0] + self._legacy(pointer.removeprefix(index[0]))
        if pointer.removeprefix("/") in self.parameters:
            return pointer
        return _renamed(self._written.values(), pointer)


def _renamed(fields: Iterable[Field], pointer: str) -> str:
    for field in fields:
        place = "/" + field.canonical.replace(".", "/")
        if f"{pointer}/".startswith(f"{place}/"):
            rest = pointer.removeprefix(place)
            index, slash, inner = rest[1:].partition("/")
            within = _renamed(field.items, slash + inner) if slash and field.items else ""
            return f"/{field.parameter}" + (f"/{index}{within}" if within else rest)
    return ""


def _read(fields: Sequence[Field], document: Document) -> Document:
    shape: Document = {}
    for field in fields:
        if field.reads:
            value = _get(document, field.canonical)
            _put(shape, field.legacy, [_read(field.items, item) for item in value] if field.items else value)
    return shape


def _items(fields: Sequence[Field], given: Any, held: Any) -> Any:
    """Return the given list; each item keeps the members unknown to legacy of the old item with its `id`.

    Values other than lists of objects stay unchanged; validation rejects them.
    """
    if not isinstance(given, list):
        return given
    before = {str(item["id"]): item for item in held or () if "id" in item}
    return [
        _item(fields, item, before.get(str(item["id"]), {}) if "id" in item else {})
        if isinstance(item, dict)
        else item
        for item in given
    ]


def _item(fields: Sequence[Field], given: Document, held: Document) -> Document:
    item = deepcopy(held)
    for field in fields:
        if field.writes:
            _clear(item, field.canonical)
            if (value := _given(field, given)) is not None:
                _put(item, field.canonical, value)
    return item


def _given(field: Field, given: Mapping[str, Any]) -> Any:
    """Return the parameter's value, or the key of the embedded record, or None."""
    value = given[field.parameter] if field.parameter in given else _embedded(field, given)
    return None if field.names_record and value == "" else value


def _embedded(field: Field, given: Mapping[str, Any]) -> Any:
    """Return the key, or keys, of the embedded record or records."""
    if field.embeds is None:
        return None
    member, key = field.embeds
    match given.get(member):
        case dict() as shown:
            return shown.get(key)
        case list() as shown:
            return [each.get(key) for each in shown if isinstance(each, dict)]
        case _:
            return None


def _get(document: Any, path: str) -> Any:
    """Return the value at a dotted path, or None."""
    for step in path.split("."):
        if not isinstance(document, Mapping):
            return None
        document = document.get(step)
    return document


def _put(document: Document, path: str, value: Any) -> None:
    *outer, last = path.split(".")
    for step in outer:
        if not isinstance(document.get(step), dict):
            document[step] = {}
        document = document[step]
    document[last] = value


def _clear(document: Document, path: str) -> None:
    *outer, last = path.split(".")
    holder = _get(document, ".".join(outer)) if outer else document
    if isinstance(holder, dict):
        holder.pop(last, None)


def shape_of(fields: Sequence[Field], schema: type[BaseModel]) -> dict[str, JsonSchema]:
    """Return the JSON schemas of the members that reads show, from the canonical schema."""
    return _shape(fields, named("", json_schema(schema, "serialization"), "Record"))


def _shape(fields: Sequence[Field], record: JsonSchema) -> dict[str, JsonSchema]:
    members: dict[str, JsonSchema] = {}
    for field in fields:
        if not field.reads:
            continue
        found = record
        for step in field.canonical.split("."):
            found = found.get("allOf", [found])[0]["properties"][step]
        if field.items:
            item = _shape(field.items, found["items"])
            found = {"type": "array", "items": {"type": "object", "properties": item}}
        outer, _, last = field.legacy.rpartition(".")
        place = members.setdefault(outer, {"type": "object", "properties": {}})["properties"] if outer else members
        place[last] = {name: value for name, value in found.items() if name not in ("default", "examples")}
    return members


def _parameter(whole: JsonSchema, within: JsonSchema, field: Field) -> JsonSchema:
    """Derive the parameter's JSON schema from the canonical schema."""
    found = within
    for step in field.canonical.split("."):
        found = _resolved(whole, _resolved(whole, found)["properties"][step])
    if field.items:
        item = _resolved(whole, found["items"])
        members = {each.parameter: _parameter(whole, item, each) for each in field.items if each.writes}
        needed = [each.parameter for each in field.items if each.canonical in item.get("required", ())]
        return {
            "type": "array",
            **({"maxItems": found["maxItems"]} if "maxItems" in found else {}),
            "items": {"type": "object", "properties": members} | ({"required": needed} if needed else {}),
        }
    if field.allowed:
        found = found | {"enum": list(field.allowed)}
    if field.default is not CANONICAL_DEFAULT:
        found = found | {"default": field.default}
    described: JsonSchema = _inlined(whole, {name: value for name, value in found.items() if name != "title"})
    return described


def inlined(schema: JsonSchema) -> JsonSchema:
    """Return the schema with references replaced, for use inside another schema."""
    found: JsonSchema = _inlined(schema, {name: each for name, each in schema.items() if name != "$defs"})
    return found


def _inlined(whole: JsonSchema, found: Any) -> Any:
    """Replace references, which are invalid outside of the schema, and mark what they name as a component."""
    if isinstance(found, list):
        return [_inlined(whole, each) for each in found]
    if not isinstance(found, dict):
        return found
    mark = {COMPONENT: f"schemas/legacy.{found['$ref'].rpartition('/')[2]}"} if found.keys() == {"$ref"} else {}
    found = _resolved(whole, found) if "$ref" in found else found
    return mark | {name: _inlined(whole, each) for name, each in found.items()}


def _resolved(whole: JsonSchema, schema: JsonSchema) -> JsonSchema:
    """Resolve references, and remove null from the allowed values and the default."""
    if "$ref" in schema:
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        return _resolved(whole, whole["$defs"][schema["$ref"].rpartition("/")[2]]) | rest
    if "anyOf" in schema:
        rest = {name: value for name, value in schema.items() if name != "anyOf" and value is not None}
        return _resolved(whole, next(each for each in schema["anyOf"] if each != {"type": "null"})) | rest
    return schema


def _message(problem: Problem) -> str:
    name = problem.pointer.removeprefix("/").replace("/", ".")
    return f"{name}: {problem.message}" if name else problem.message


TEXT: Final[JsonSchema] = {"type": "string"}
TEXT_OR_NULL: Final[JsonSchema] = {"type": ["string", "null"]}
INTEGER: Final[JsonSchema] = {"type": "integer"}
FLAG: Final[JsonSchema] = {"type": "boolean"}
TIME: Final[JsonSchema] = {"type": "string", "format": "date-time"}
OBJECT: Final[JsonSchema] = {"type": "object"}
OBJECT_OR_NULL: Final[JsonSchema] = {"type": ["object", "null"]}
COUNT: Final[JsonSchema] = {"type": ["integer", "null"], "description": "Null while hidden from the caller."}
TIMES: Final[JsonSchema] = {"created": TIME, "updated": TIME}


def shape(name: str, members: Mapping[str, JsonSchema]) -> JsonSchema:
    """Return the component of an object that always has these members."""
    return {
        COMPONENT: f"schemas/Legacy{name}",
        "type": "object",
        "required": list(members),
        "properties": dict(members),
    }


def of(schema: JsonSchema, *names: str) -> dict[str, JsonSchema]:
    """Return members with the same schema."""
    return dict.fromkeys(names, schema)


def described(schema: JsonSchema, description: str) -> JsonSchema:
    return schema | {"description": description}


def array(item: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": item}


def or_null(component: JsonSchema) -> JsonSchema:
    return {"anyOf": [component, {"type": "null"}]}


def page(member: str, item: JsonSchema) -> JsonSchema:
    """Return the shape of a page of a list, whose records are in `member`."""
    whole = shape(f"{member.capitalize()}Page", {member: array(item)})
    whole["properties"] |= {"next": {"type": "string", "description": "Absent at the end."}}
    return whole
