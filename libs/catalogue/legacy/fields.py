"""Legacy members and the canonical ones behind them: one table a resource, by which it is read and written.

What a table does not name is never touched by a legacy write; so what only the current generation knows survives.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from libs.catalogue.resource import Document
from libs.catalogue.schemas.base import Record, checked
from libs.contracts.validation import Problem, ValidationFailed

JsonSchema = dict[str, Any]

PLACE: Final = re.compile(r"/\d+")
CANONICAL_DEFAULT: Final[Any] = object()


@dataclass(frozen=True, slots=True)
class Field:
    """A legacy member and what holds it: places in the read shape and in the canonical record, steps with dots.

    The last step of `legacy` is also the write parameter. `reason` says why the two are not one to one.
    """

    legacy: str
    canonical: str
    reason: str = ""
    _: KW_ONLY
    default: Any = CANONICAL_DEFAULT
    """What a create without the parameter writes, where legacy has another default."""
    allowed: tuple[Any, ...] = ()
    """The values that a write may set; any other may only stay what it is."""
    reads: bool = True
    """Unless the read shape shows something derived instead."""
    writes: bool = True
    names_record: bool = False
    """The value is another record's key; an empty text names none."""
    embeds: tuple[str, str] | None = None
    """Where the read shape has the record itself instead of its key: the member there, and the key's name in it.
    Written back without the parameter, it stands for that."""
    items: "tuple[Field, ...]" = ()
    """The members of a list's items, with places within an item. Items are matched by their `id`."""

    @property
    def parameter(self) -> str:
        return self.legacy.rpartition(".")[2]


class Translator:
    """One resource in both directions, by its table.

    `own` describes further parameters, which the resource's module reads itself.
    """

    def __init__(
        self, schema: type[Record], fields: Sequence[Field], own: Mapping[str, JsonSchema] | None = None
    ) -> None:
        self.fields = fields
        self._schema = schema
        self._written = {field.parameter: field for field in fields if field.writes}
        described = schema.model_json_schema(mode="validation")
        self.parameters: Final[Mapping[str, JsonSchema]] = {
            name: _parameter(described, described, field) for name, field in self._written.items()
        } | dict(own or {})
        """JSON schemas of the write parameters: what forms are read by, and the documentation."""

    def read(self, record: Record) -> Document:
        """What the table knows of the read shape."""
        return _read(self.fields, record.shown())

    def written(
        self, body: Mapping[str, Any], before: Document | None, others: Iterable[Problem] = ()
    ) -> Document:
        """The canonical document that the parameters in `body` make of what it was `before` (None: it is new).

        Parameters left out keep their value, null is the default, unknown ones are passed over. The document is
        yet to be validated. Raises `ValidationFailed` with `others`, what legacy alone refuses, and then what the
        schema refuses.
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
            raise ValidationFailed([*problems, *self._refused(document)])
        return document

    def _refused(self, document: Document) -> list[Problem]:
        """The faults of a document by its schema, under legacy names."""
        try:
            checked(self._schema, document)
        except ValidationFailed as error:
            return self._renamed_problems(error)
        return []

    def _renamed_problems(self, error: ValidationFailed) -> list[Problem]:
        return [Problem(self._legacy(each["pointer"]), each["message"]) for each in error.data["errors"]]

    def renamed(self, error: ValidationFailed) -> ValidationFailed:
        """The same refusal, naming members as legacy does; a pointer may begin with the place among several."""
        problems = self._renamed_problems(error)
        renamed = ValidationFailed(problems, "; ".join(_said(problem) for problem in problems))
        renamed.code = error.code
        return renamed

    def _legacy(self, pointer: str) -> str:
        """The parameter behind a canonical pointer, with the steps that remain; "" where there is none."""
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
    """A list as it is given; each item keeps what legacy does not name of the one that had its `id`.

    What is no list of objects stays as it is, for validation to refuse.
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
    """The parameter's value, or the key of what a read shows in its place; None without either."""
    value = given[field.parameter] if field.parameter in given else _embedded(field, given)
    return None if field.names_record and value == "" else value


def _embedded(field: Field, given: Mapping[str, Any]) -> Any:
    """The key of the record that stands where reads embed it, or the keys of several."""
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
    """None where there is nothing."""
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


def _parameter(whole: JsonSchema, within: JsonSchema, field: Field) -> JsonSchema:
    """What the canonical schema says of the member, as far as it is legacy's too."""
    found = within
    for step in field.canonical.split("."):
        found = _resolved(whole, _resolved(whole, found)["properties"][step])
    if field.items:
        item = _resolved(whole, found["items"])
        members = {each.parameter: _parameter(whole, item, each) for each in field.items if each.writes}
        needed = [each.parameter for each in field.items if each.canonical in item.get("required", ())]
        return {
            "type": "array",
            "items": {"type": "object", "properties": members} | ({"required": needed} if needed else {}),
        }
    if field.allowed:
        found = found | {"enum": list(field.allowed)}
    if field.default is not CANONICAL_DEFAULT:
        found = found | {"default": field.default}
    described: JsonSchema = _inlined(whole, {name: value for name, value in found.items() if name != "title"})
    return described


def inlined(schema: JsonSchema) -> JsonSchema:
    """The schema without references, for use inside another one."""
    found: JsonSchema = _inlined(schema, {name: each for name, each in schema.items() if name != "$defs"})
    return found


def _inlined(whole: JsonSchema, found: Any) -> Any:
    """Without references, which lead nowhere outside of the schema."""
    if isinstance(found, list):
        return [_inlined(whole, each) for each in found]
    if not isinstance(found, dict):
        return found
    found = _resolved(whole, found) if "$ref" in found else found
    return {name: _inlined(whole, each) for name, each in found.items()}


def _resolved(whole: JsonSchema, schema: JsonSchema) -> JsonSchema:
    """The schema behind references, without "or null", which is no default either."""
    if "$ref" in schema:
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        return _resolved(whole, whole["$defs"][schema["$ref"].rpartition("/")[2]]) | rest
    if "anyOf" in schema:
        rest = {name: value for name, value in schema.items() if name != "anyOf" and value is not None}
        return _resolved(whole, next(each for each in schema["anyOf"] if each != {"type": "null"})) | rest
    return schema


def _said(problem: Problem) -> str:
    name = problem.pointer.removeprefix("/").replace("/", ".")
    return f"{name}: {problem.message}" if name else problem.message
