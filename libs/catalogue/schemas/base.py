"""Base classes and types of all resource schemas: strict validation, cleared members, timestamps and limits."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
    with_config,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from typing_extensions import TypedDict

from libs.contracts.limits import (
    ADDRESS,
    CONTENT,
    DESCRIPTION,
    KEY,
    KEYS,
    LINE,
    OBJECT,
    PARTS,
    TAG,
    TEXTS,
    TITLE,
)
from libs.contracts.validation import UNKNOWN_MEMBER, Problem, problems_in
from libs.tally.time_conversion import microseconds, parse_timestamp, timestamp

Document = dict[str, Any]
"""The JSON object of a record."""
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
MAX_LIMIT: Final = 2**31 - 1


def _write_timestamp(value: datetime) -> str:
    text = timestamp(microseconds(value))
    assert text is not None
    return text


Timestamp = Annotated[
    datetime,
    BeforeValidator(parse_timestamp),
    PlainSerializer(_write_timestamp, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-05-01T18:00:00.000000Z"]}),
]


def _or_none(value: object, parse: ValidatorFunctionWrapHandler) -> object:
    try:
        return parse(value)
    except ValueError:
        return None


class _WrittenByTheServer:
    """Accepts any value in a request body; responses have the member's own, read-only schema."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {} if handler.mode == "validation" else handler(schema) | {"readOnly": True}


ServerTime = Annotated[Timestamp | None, WrapValidator(_or_none), _WrittenByTheServer()]
"""A time that the server sets; a value in a request body is ignored."""
Limit = Annotated[int, Field(ge=-1, le=MAX_LIMIT, description="-1 is unlimited.")]
Count = Annotated[int, Field(ge=0, le=MAX_LIMIT)]
FreeForm = Annotated[dict[str, Any], OBJECT]
Items = Annotated[list[Any], CONTENT]
Line = Annotated[str, LINE]
Key = Annotated[str, KEY]
Address = Annotated[str, ADDRESS]
Texts = Annotated[list[Annotated[str, TAG]], TEXTS]
Keys = Annotated[list[Key], KEYS]
Parts = Annotated[list[T], PARTS]
TitleText = Annotated[str, TITLE]


@with_config(ConfigDict(extra="allow"))
class Linked(TypedDict, total=False):
    """Free-form, except for `key`, which names a record."""

    key: Annotated[Key | None, Field(description="The record's key.")]


LinkedForm = Annotated[Linked, OBJECT]
Title = Annotated[
    TitleText | None, Field(description=f"The displayed title: at most {TITLE.visible} visible characters.")
]
Description = Annotated[Annotated[str, DESCRIPTION] | None, Field(description="The displayed description.")]
Picture = Annotated[LinkedForm, Field(description="Free-form; `key` names an image.")]
Style = Annotated[FreeForm, Field(description="The style; free-form.")]
Icon = Annotated[FreeForm, Field(description="The icon; free-form.")]
Navigation = Annotated[FreeForm, Field(description="The target of a tap; free-form.")]
CustomData = Annotated[FreeForm, Field(description="Defined by the account; free-form.")]
Tags = Annotated[Texts, Field(description="The account's tags; lists can be filtered by them.")]


def require_unique(name: str, values: Sequence[str]) -> None:
    """Raise ValueError if `values` holds a duplicate."""
    if len(set(values)) < len(values):
        raise ValueError(f"every {name} must be unique")


def in_order(record: M) -> M:
    """Validate a whole record: raise ValueError if its `end` is before its `start`."""
    start, end = record.__dict__["start"], record.__dict__["end"]
    if start is not None and end is not None and end < start:
        raise ValueError("end must not be before start")
    return record


@cache
def member_names(schema: type[BaseModel]) -> frozenset[str]:
    """Return the JSON names of the schema's members."""
    return frozenset(field.alias or name for name, field in schema.model_fields.items())


class Members(BaseModel):
    """A typed JSON object. Unknown members are rejected; `null` resets a member to its default.

    Members set by the server (`ignored`) are dropped from a request body, so a client can send back a record that
    it has read.
    """

    model_config = ConfigDict(extra="forbid", strict=True, serialize_by_alias=True, defer_build=True)
    ignored: ClassVar[frozenset[str]] = frozenset({"key", "created", "updated"})

    @model_validator(mode="before")
    @classmethod
    def _drop(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        cleared = {name for name, value in data.items() if value is None}
        if cls.model_config["extra"] == "forbid":
            cleared &= member_names(cls)
        return {name: value for name, value in data.items() if name not in cleared | cls.ignored}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Allow null for optional members of a request body, and describe the ignored members."""
        found = handler(schema)
        if handler.mode == "validation":
            own = handler.resolve_ref_schema(found)
            members = own.setdefault("properties", {})
            for name in members.keys() - set(own.get("required", ())):
                members[name] = or_null(members[name])
            for name in sorted(cls.ignored - members.keys() - getattr(cls, "owned", frozenset())):
                members[name] = {"description": "Set by the server; ignored in requests."}
        return found


def or_null(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Make a JSON schema nullable; description, default and title stay outside of `anyOf`."""
    if {"type": "null"} in schema.get("anyOf", ()) or not schema.keys() - {"description", "title", "default"}:
        return schema
    about = {key: value for key, value in schema.items() if key in ("description", "default", "title")}
    plain = {key: value for key, value in schema.items() if key not in about}
    return about | {"anyOf": [plain, {"type": "null"}]}


class Record(Members):
    """The members of a record that clients write; only members that were set are stored.

    `owned` members are stored too, but only the server writes them and no response shows them. Responses also have
    `computed_members`, with these JSON schemas. Both are `ignored` in requests.
    """

    owned: ClassVar[frozenset[str]] = frozenset()
    computed_members: ClassVar[Mapping[str, JsonSchemaValue]] = {}

    def stored(self) -> dict[str, Any]:
        """Return the document to store: the members that were set, normalised."""
        return self.model_dump(mode="json", exclude_unset=True)

    def shown(self) -> dict[str, Any]:
        """Return all members, with their defaults."""
        return self.model_dump(mode="json")


def owned_members(schema: type[Record], body: Mapping[str, Any]) -> list[Problem]:
    """Return a problem for each member of `body` that only the server writes."""
    return [Problem(f"/{name}", UNKNOWN_MEMBER) for name in sorted(schema.owned & body.keys())]


def unknown_members(schema: type[Record], patch: Any) -> list[Problem]:
    """Return a problem for each unknown member of a patch, also for those set to null."""
    try:
        schema.model_validate(patch)
    except ValidationError as error:
        found = problems_in(error, schema)
        return [problem for problem in found if problem.message.startswith(UNKNOWN_MEMBER)]
    return []


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396) to a copy of `target`: objects merge, others replace, null removes."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
