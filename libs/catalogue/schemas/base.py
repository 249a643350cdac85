"""What the schemas of all resources share: strictness, cleared members, and the types of the specification."""

from collections.abc import Iterable, Mapping, Sequence
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

from libs.contracts.validation import Problem, ValidationFailed, faults, pointer, wide_integers
from libs.tally.time import microseconds, parse_timestamp, timestamp

M = TypeVar("M", bound=BaseModel)

NO_MEMBER: Final = "is no member of this resource"
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
    """Anything will do in a body; what is read has its own schema."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {} if handler.mode == "validation" else handler(schema) | {"readOnly": True}


ServerTime = Annotated[Timestamp | None, WrapValidator(_or_none), _WrittenByTheServer()]
"""A time inside a document that is the server's: whatever a body says of it, the server writes its own."""
Limit = Annotated[int, Field(ge=-1, le=MAX_LIMIT, description="-1 is unlimited.")]
Count = Annotated[int, Field(ge=0, le=MAX_LIMIT)]
FreeForm = dict[str, Any]
Items = list[Any]


@with_config(ConfigDict(extra="allow"))
class Linked(TypedDict, total=False):
    """Free-form, but for its `key`, which names a record."""

    key: Annotated[str | None, Field(description="The record's key.")]


Title = Annotated[str | None, Field(description="Shown to people.")]
Description = Annotated[str | None, Field(description="A longer text for people.")]
Picture = Annotated[Linked, Field(description="Free-form; `key` names an image.")]
Style = Annotated[FreeForm, Field(description="How it is drawn; free-form.")]
Icon = Annotated[FreeForm, Field(description="The icon beside it; free-form.")]
Navigation = Annotated[FreeForm, Field(description="Where a tap leads; free-form.")]
CustomData = Annotated[FreeForm, Field(description="The account's own; free-form.")]
Tags = Annotated[list[str], Field(description="Words of the account's own, to filter lists by.")]


def refuse_doubles(name: str, values: Sequence[str]) -> None:
    """Raises ValueError where one of `values` is there twice."""
    if len(set(values)) < len(values):
        raise ValueError(f"every {name} must be there once only")


def refuse_disorder(start: datetime | None, end: datetime | None) -> None:
    """Raises ValueError where the end comes before the start."""
    if start is not None and end is not None and end < start:
        raise ValueError("end must not be before start")


@cache
def names_of(schema: type[BaseModel]) -> frozenset[str]:
    """Of its members, as they stand in JSON."""
    return frozenset(field.alias or name for name, field in schema.model_fields.items())


class Members(BaseModel):
    """A typed object of a record. Unknown members are refused; `null` clears a member, which then has its default.

    What the server gives (`ignored`) is left out of a body, so that a record that was read can be sent back.
    """

    model_config = ConfigDict(extra="forbid", strict=True, serialize_by_alias=True)
    ignored: ClassVar[frozenset[str]] = frozenset({"key", "created", "updated"})

    @model_validator(mode="before")
    @classmethod
    def _drop(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        cleared = {name for name, value in data.items() if value is None}
        if cls.model_config["extra"] == "forbid":
            cleared &= names_of(cls)
        return {name: value for name, value in data.items() if name not in cleared | cls.ignored}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """A body may also hold null for what it may leave out, and what is ignored."""
        found = handler(schema)
        if handler.mode == "validation":
            own = handler.resolve_ref_schema(found)
            members = own.setdefault("properties", {})
            for name in members.keys() - set(own.get("required", ())):
                members[name] = or_null(members[name])
            for name in sorted(cls.ignored - members.keys() - getattr(cls, "owned", frozenset())):
                members[name] = {"description": "The server's; ignored here."}
        return found


def or_null(schema: JsonSchemaValue) -> JsonSchemaValue:
    """The schema of the same values and null; its description stays outside."""
    if {"type": "null"} in schema.get("anyOf", ()) or not schema.keys() - {"description", "title", "default"}:
        return schema
    about = {key: value for key, value in schema.items() if key in ("description", "default", "title")}
    plain = {key: value for key, value in schema.items() if key not in about}
    return about | {"anyOf": [plain, {"type": "null"}]}


class Record(Members):
    """The members of a record that its owner writes; what is stored is these, and of these what was set.

    `owned` members stand in the stored document too, but the server alone writes them, and no read shows them.
    They are `ignored` as well.
    """

    owned: ClassVar[frozenset[str]] = frozenset()

    def stored(self) -> dict[str, Any]:
        """The canonical document: what was set, normalised."""
        return self.model_dump(mode="json", exclude_unset=True)

    def shown(self) -> dict[str, Any]:
        """All members, as they hold."""
        return self.model_dump(mode="json")


def checked(schema: type[M], body: Any, others: Iterable[Problem] = ()) -> M:
    """The body as `schema`. Raises `ValidationFailed` with all that is wrong with it, and `others` first."""
    problems = [*others, *wide_integers(body)]
    try:
        parsed = schema.model_validate(body)
    except ValidationError as error:
        raise ValidationFailed([*problems, *_problems_in(error)]) from None
    if problems:
        raise ValidationFailed(problems)
    return parsed


def strays_in(schema: type[Record], patch: Any) -> list[Problem]:
    """What a patch names and is no member, if only to clear it."""
    try:
        schema.model_validate(patch)
    except ValidationError as error:
        return [problem for problem in _problems_in(error) if problem.message == NO_MEMBER]
    return []


def _problems_in(error: ValidationError) -> list[Problem]:
    """The members that are wrong, by RFC 6901 pointers. Raises `ValidationFailed` for too many."""
    return [
        Problem(pointer(*_steps(found["loc"])), _message(found["type"], found["msg"])) for found in faults(error)
    ]


def _steps(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """A name of a mapping that is wrong itself is found where its value is."""
    return loc[:-1] if loc[-1:] == ("[key]",) else loc


def _message(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return NO_MEMBER
    return message.removeprefix("Value error, ")
