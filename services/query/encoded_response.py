"""Responses that are built once and sent to many readers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import orjson

from libs.web.responses import etag, not_modified
from libs.web.server.hot_requests import Header, Reply


@dataclass(frozen=True, slots=True)
class EncodedResponse:
    """A response: `headers` of a 200, and those of a 304."""

    body: bytes
    tag: str
    headers: list[Header]
    not_modified: list[Header]
    positions: Mapping[int, int]
    """Offsets by partition up to which votes are counted in it; empty if its readers are not told."""

    def reply(self, if_none_match: str | None, more: Sequence[Header] = ()) -> Reply:
        """Return the reply, with the headers `more`, to a reader with this `If-None-Match`."""
        if not_modified(if_none_match, self.tag):
            return Reply(304, [*self.not_modified, *more], b"")
        return Reply(200, [*self.headers, *more], self.body)


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
