"""Encoded responses, built once for all readers of the same body."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import orjson

from libs.web.responses import etag

Header = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class EncodedResponse:
    """A response: `headers` of a 200, and those of a 304."""

    body: bytes
    tag: str
    headers: list[Header]
    not_modified: list[Header]
    positions: Mapping[int, int]
    """Offsets by partition up to which votes are counted in it; empty if its readers are not told."""


def encoded(
    record: Mapping[str, Any],
    state: Sequence[object],
    headers: Sequence[Header],
    positions: Mapping[int, int] = MappingProxyType({}),
) -> EncodedResponse:
    """Encode `record` as JSON. Its strong entity tag also changes with `state`; a 304 has `headers`, too."""
    body = orjson.dumps(record)
    tag = etag(blake2b("\0".join(map(str, state)).encode() + b"\0" + body, digest_size=16).hexdigest())
    common = [(b"etag", tag.encode()), *headers]
    content = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    return EncodedResponse(body, tag, content + common, common, positions)
