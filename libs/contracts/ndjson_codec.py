"""Encodes records as lines of NDJSON and decodes them, byte for byte.

The last member is `event`, the record's own unchanged JSON text; or, for values that are not JSON or have several
lines, `value_base64`.
"""

import dataclasses
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Set
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import BaseModel

from libs.contracts.log_records import LogRecord

HIDDEN: Final = {"hidden": True}
"""Metadata of a field that is not part of the JSON form."""
DECIMALS: Final = 3
"""Decimals of a dataclass's measurements."""


def json_form(value: object) -> Any:
    """Convert a result into JSON values.

    The members of a dataclass are its public fields that are not `HIDDEN`, and its public properties. Keys become
    texts, sets and iterables lists, bytes base64.
    """
    match value:
        case Enum():
            return value.value
        case None | str() | int() | float():
            return value
        case bytes():
            return b64encode(value).decode()
        case Path():
            return str(value)
        case BaseModel():
            return value.model_dump(mode="json")
        case Mapping():
            return {str(json_form(name)): json_form(one) for name, one in value.items()}
        case tuple() if hasattr(value, "_asdict"):
            return json_form(value._asdict())
        case _ if dataclasses.is_dataclass(value):
            return {name: _rounded(json_form(getattr(value, name))) for name in _members(value.__class__)}
        case Set():
            return sorted(map(json_form, value))
        case Iterable():
            return list(map(json_form, value))
    raise TypeError(f"{type(value).__name__} has no JSON form")


@cache
def _members(kind: Any) -> list[str]:
    names = [field.name for field in dataclasses.fields(kind) if not field.metadata.get("hidden")]
    names += [name for base in kind.__mro__ for name, it in vars(base).items() if isinstance(it, property)]
    return [name for name in names if not name.startswith("_")]


def _rounded(value: Any) -> Any:
    return round(value, DECIMALS) if isinstance(value, float) else value


_EVENT = b',"event":'
"""Separator before the event; no other member can contain it, since quotes in strings are escaped."""


def to_line(kind: str, partition: int, record: LogRecord) -> bytes:
    head: dict[str, Any] = {
        "topic": kind,
        "partition": partition,
        "offset": record.offset,
        "time_ms": record.timestamp_ms,
    }
    if record.key is not None:
        try:
            head["key"] = record.key.decode()
        except UnicodeDecodeError:
            head["key_base64"] = b64encode(record.key).decode()
    if _is_one_line_of_json(record.value):
        return orjson.dumps(head)[:-1] + _EVENT + record.value + b"}\n"
    head["value_base64"] = b64encode(record.value).decode()
    return orjson.dumps(head) + b"\n"


def from_line(line: bytes) -> LogRecord:
    """Decode a line written by `to_line`. Raises ValueError or KeyError for any other."""
    head, found, event = line.partition(_EVENT)
    members = orjson.loads(head + b"}" if found else head)
    return LogRecord(
        offset=members["offset"],
        timestamp_ms=members["time_ms"],
        value=event.removesuffix(b"}\n") if found else b64decode(members["value_base64"]),
        key=_key(members),
    )


def _key(members: dict[str, Any]) -> bytes | None:
    if "key_base64" in members:
        return b64decode(members["key_base64"])
    key: str | None = members.get("key")
    return None if key is None else key.encode()


def _is_one_line_of_json(value: bytes) -> bool:
    if b"\n" in value or b"\r" in value:
        return False
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return False
    return True
