"""Events to bytes and back, by the explicit name in their `type` member."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar, Union

import orjson
from pydantic import Field, TypeAdapter, ValidationError

from libs.contracts.upcasters import LIFTS
from libs.tally.events import Event as VoteEvent

E = TypeVar("E")
NOTHING: Final[Mapping[type, Callable[[Any], Any]]] = {}


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A record that is no known event; it goes to quarantine with this reason, never past in silence."""

    reason: str


class Codec(Generic[E]):
    """JSON codec of a union of frozen dataclasses told apart by their `type` member.

    Old versions are decoded too, and lifted by their row of `upcasts`: callers see today's events only.
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
            return Undecodable(_first(error))

    def decode_many(self, values: Sequence[bytes]) -> Sequence[E | Undecodable]:
        """Decode a batch in one call; one by one only when that fails, to find the poison record.

        A record that holds "1,2" would smuggle two list items past the one call, so the count is checked too.
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
        lift = self._upcasts.get(type(event))
        return event if lift is None else lift(event)


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = "/".join(str(step) for step in first["loc"])
    return f"{where or 'record'}: {first['msg']}"


vote_codec: Codec[VoteEvent] = Codec(VoteEvent, LIFTS)
