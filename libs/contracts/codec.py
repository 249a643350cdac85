"""JSON codec of events, discriminated by their `type` member."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, Union, get_type_hints

import msgspec
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from libs.tally.events import Event as VoteEvent
from libs.tally.events import Fence, Rating, VoteCast

DEPRECATED: Final = ConfigDict(json_schema_extra={"deprecated": True})
DEFERRED: Final = ConfigDict(defer_build=True)
"""Builds validators at their first use: not every process decodes every log."""


@dataclass(frozen=True, slots=True)
class FenceV1:
    """A fence that is valid after any lower one, unless `after` names one; the oldest fences have no `after`."""

    incarnation: int
    after: int | None = None
    run: str | None = None
    type: Literal["Fence"] = "Fence"

    __pydantic_config__ = DEPRECATED


OldEvent = FenceV1

UPCASTS: Final[Mapping[type, Callable[[Any], Any]]] = {
    FenceV1: lambda old: Fence(old.incarnation, old.after, old.run),
}
"""Converts each old version of an event in the votes log directly to the current one."""


_END: Final = b'"type":"VoteCast"}'


def _struct(of: type, **options: Any) -> Any:
    """Return a msgspec type with the members of a dataclass."""
    types = get_type_hints(of)
    members: list[Any] = []
    for member in fields(of):
        annotation = _RATING if types[member.name] == Rating | None else types[member.name]
        is_required = member.default is MISSING
        members.append((member.name, annotation) if is_required else (member.name, annotation, member.default))
    return msgspec.defstruct(f"Plain{of.__name__}", members, forbid_unknown_fields=True, gc=False, **options)


_RATING: Final[Any] = _struct(Rating) | None
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_struct(VoteCast)).decode


def plain_vote(value: bytes) -> Any | None:
    """Return the members of a `VoteCast`, or None: only the codec can decode this record."""
    if not value.endswith(_END):
        return None
    try:
        return _decode(value)
    except ValueError:  # msgspec's errors, and that of text that is not UTF-8
        return None


E = TypeVar("E")
EVENT_TYPE: Final = re.compile(r"[A-Z][A-Za-z]+(\.[0-9]+)?", re.ASCII)
"""Form of all types, past and future. A record of another one is corrupt."""
NOTHING: Final[Mapping[type, Callable[[Any], Any]]] = {}


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A record that is no event, or not a known one; the reader quarantines it with this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class UnknownEvent(Undecodable):
    """An event of a type that this version does not support: a newer one wrote it."""

    type: str


class Codec(Generic[E]):
    """JSON codec of a union of frozen dataclasses, discriminated by their `type` member.

    Old versions are decoded too, and `upcasts` converts them: callers get current events only. A member of another
    JSON type is never converted: 1.0, "1" and true are no whole numbers.
    """

    def __init__(self, union: Any, upcasts: Mapping[type, Callable[[Any], E]] = NOTHING) -> None:
        tagged: Any = Annotated[Union[union, *upcasts], Field(discriminator="type")]
        self._upcasts = upcasts
        self._one: TypeAdapter[E] = TypeAdapter(tagged, config=DEFERRED)
        self._many: TypeAdapter[list[E]] = TypeAdapter(list[tagged], config=DEFERRED)

    def encode(self, event: E) -> bytes:
        return _encode(event)

    def decode(self, value: bytes) -> E | Undecodable:
        try:
            return self._upcast(self._one.validate_json(value, strict=True))
        except ValidationError as error:
            return _undecodable(error)

    def decode_many(self, values: Sequence[bytes]) -> Sequence[E | Undecodable]:
        """Decode a batch in one call; if that fails, one by one, to find the undecodable records.

        The number of events is checked too: a record with the text "1,2" would decode as two items.
        """
        try:
            events = self._many.validate_json(b"[" + b",".join(values) + b"]", strict=True)
        except ValidationError:
            return [self.decode(value) for value in values]
        if len(events) != len(values):
            return [self.decode(value) for value in values]
        if self._upcasts.keys().isdisjoint(map(type, events)):
            return events
        return [self._upcast(event) for event in events]

    def _upcast(self, event: E) -> E:
        upcast = self._upcasts.get(type(event))
        return event if upcast is None else upcast(event)


def _undecodable(error: ValidationError) -> Undecodable:
    first = error.errors(include_url=False, include_input=False)[0]
    path = "/".join(str(step) for step in first["loc"])
    reason = f"{path or 'record'}: {first['msg']}"
    if first["type"] == "union_tag_invalid" and EVENT_TYPE.fullmatch(str(first["ctx"]["tag"])):
        return UnknownEvent(reason, str(first["ctx"]["tag"]))
    return Undecodable(reason)


vote_codec: Codec[VoteEvent] = Codec(VoteEvent, UPCASTS)
