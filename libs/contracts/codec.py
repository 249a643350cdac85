"""Events to bytes and back, by the explicit name in their `type` member."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import orjson
from pydantic import Field, TypeAdapter, ValidationError

from libs.tally.events import Event as VoteEvent

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A record that is no known event; it goes to quarantine with this reason, never past in silence."""

    reason: str


class Codec(Generic[E]):
    """JSON codec of a union of frozen dataclasses told apart by their `type` member."""

    def __init__(self, union: Any) -> None:
        tagged = Annotated[union, Field(discriminator="type")]
        self._one: TypeAdapter[E] = TypeAdapter(tagged)
        self._many: TypeAdapter[list[E]] = TypeAdapter(list[tagged])

    def encode(self, event: E) -> bytes:
        return orjson.dumps(event)

    def decode(self, value: bytes) -> E | Undecodable:
        try:
            return self._one.validate_json(value)
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
        return events if len(events) == len(values) else [self.decode(value) for value in values]


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = "/".join(str(step) for step in first["loc"])
    return f"{where or 'record'}: {first['msg']}"


vote_codec: Codec[VoteEvent] = Codec(VoteEvent)
