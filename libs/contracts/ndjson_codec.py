"""Encodes records as lines of NDJSON and decodes them, byte for byte.

The last member is `event`, the record's own unchanged JSON text; or, for values that are not JSON or have several
lines, `value_base64`.
"""

from base64 import b64decode, b64encode
from typing import Any

import orjson

from libs.contracts.log_records import LogRecord

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
