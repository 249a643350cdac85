"""JSON codec of events, discriminated by their `type` member."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar, Union

import orjson
from pydantic import Field, TypeAdapter, ValidationError

from libs.contracts.upcasters import UPCASTS
from libs.tally.events import Event as VoteEvent

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

    Old versions are decoded too, and `upcasts` converts them: callers get current events only.
    """

    def __init__(self, union: Any, upcasts: Mapping[type, Callable[[Any], E]] = NOTHING) -> None:
        tagged: Any = Annotated[Union[union, *upcasts], Field(discriminator="type")]
        self._upcasts = upcasts
        self._one: TypeAdapter[E] = TypeAdapter(tagged)
        self._many: TypeAdapter[list[E]] = TypeAdapter(list[tagged])

    def encode(self, event: E) -> bytes:
        return orjson.dumps(event)

    def decode(self, value: bytes) -> E | Undecodable:
        try:
            return self._upcast(self._one.validate_json(value))
        except ValidationError as error:
            return _undecodable(error)

    def decode_many(self, values: Sequence[bytes]) -> Sequence[E | Undecodable]:
        """Decode a batch in one call; if that fails, one by one, to find the undecodable records.

        The number of events is checked too: a record with the text "1,2" would decode as two items.
        """
        try:
            events = self._many.validate_json(b"[" + b",".join(values) + b"]")
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
