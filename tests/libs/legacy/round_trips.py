"""Records written in one generation, read in the other and written back: of any resource with a translator."""

import re
from datetime import UTC
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from libs.catalogue.resource_definition import Document
from libs.catalogue.schemas.base import Record
from libs.legacy.translator import Translator

WORDS = st.text('abc é"\\', max_size=4)
FREE = st.dictionaries(
    WORDS, st.one_of(st.integers(-3, 3), WORDS, st.lists(st.booleans(), max_size=2)), max_size=2
)
KEYS = re.compile(r"(.*_)?(id|key|keys|article|image)")
"""Members that name records."""
TIMES = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.isoformat())


def documents(schema: type[Record]) -> SearchStrategy[Document]:
    """Canonical documents of a resource, as they are stored. No key is empty: in legacy an empty one is none."""
    described = schema.model_json_schema(mode="validation")
    return (
        _values(described, described)
        .filter(lambda body: _fits(schema, body))
        .map(lambda body: schema.model_validate(_named(body)).stored())
    )


def bodies(translator: Translator, schema: type[Record]) -> SearchStrategy[Document]:
    """Legacy bodies that make a valid record, of some of the table's parameters."""
    described = {
        field.parameter: translator.parameters[field.parameter] for field in translator.fields if field.writes
    }
    members: dict[str, SearchStrategy[Any]] = {name: _values(each, each) for name, each in described.items()}
    return st.fixed_dictionaries({}, optional=members).filter(
        lambda body: _fits(schema, translator.written(body, None))
    )


def sent_back(translator: Translator, schema: type[Record], document: Document) -> Document:
    """Return the record that results when a legacy client writes back all that it read."""
    shape = translator.read(schema.model_validate(document))
    body = {
        field.parameter: _at(shape, field.legacy) for field in translator.fields if field.reads and field.writes
    }
    return shown(schema, translator.written(body, document))


def shown(schema: type[Record], document: Document) -> Document:
    """The current generation's read, without what the server adds."""
    return schema.model_validate(document).shown()


def without(document: Document, *paths: str) -> Document:
    """All but what stands at these places, and objects that are empty without that."""
    found = dict(document)
    for path in paths:
        step, _, rest = path.partition(".")
        if not rest:
            found.pop(step, None)
        elif isinstance(found.get(step), dict):
            found[step] = without(found[step], rest)
            if not found[step]:
                del found[step]
    return found


def _named(value: Any, is_key: bool = False) -> Any:
    """With a key where there is an empty one."""
    if isinstance(value, dict):
        return {name: _named(each, KEYS.fullmatch(name) is not None) for name, each in value.items()}
    if isinstance(value, list):
        return [_named(each, is_key) for each in value]
    return "named" if is_key and value == "" else value


def _at(shape: Any, path: str) -> Any:
    for step in path.split("."):
        shape = shape[step]
    return shape


def _fits(schema: type[Record], body: Document) -> bool:
    try:
        schema.model_validate(body)
    except ValueError:
        return False
    return True


def _values(whole: Document, schema: Document) -> SearchStrategy[Any]:
    """Values of a JSON schema, as far as ours go."""
    if "$ref" in schema:
        return _values(whole, whole["$defs"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return st.one_of([_values(whole, each) for each in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object" if "properties" in schema:
            members = {name: _values(whole, each) for name, each in schema["properties"].items()}
            needed = {name: members.pop(name) for name in schema.get("required", ())}
            return st.fixed_dictionaries(needed, optional=members)
        case "object":
            return FREE
        case "array":
            return st.lists(_values(whole, schema["items"]) if schema.get("items") else FREE, max_size=3)
        case "integer" | "number":
            return st.integers(schema.get("minimum", -9), min(schema.get("maximum", 9), 9))
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "string" if schema.get("format") == "date-time":
            return TIMES
        case "string" if "pattern" in schema:
            return st.from_regex(schema["pattern"], fullmatch=True)
        case "string":
            return st.text(
                "abc é", min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 4), 4)
            )
    return FREE
