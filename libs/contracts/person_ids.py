"""Type of the ids by which callers name voters and users."""

from typing import Annotated, Final

from pydantic import AfterValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

MAX_IDENTITY_BYTES: Final = 256


def _check(value: str) -> str:
    if not 1 <= len(value.encode()) <= MAX_IDENTITY_BYTES:
        raise PydanticCustomError("identity", "must be 1 to 256 bytes of UTF-8")
    if not value.isprintable() and any(ord(c) < 32 or 127 <= ord(c) < 160 for c in value):
        raise PydanticCustomError("identity", "must not contain control characters")
    return value


Identity = Annotated[
    str,
    AfterValidator(_check),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_IDENTITY_BYTES,
            "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
        }
    ),
]
"""The caller's id of a voter or user."""
