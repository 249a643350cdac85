"""The requests in a client's bytes by h11, less those that the server refuses by its own, stricter rules."""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import h11

Headers = tuple[tuple[bytes, bytes], ...]
MOST_BYTES: Final = 1 << 20
TOKEN: Final = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]*"
QUOTED: Final = rb"\"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*\""
CHUNK: Final = re.compile(rb"[0-9A-Fa-f]+(;%s(=%s(%s)?)?)*(?<!;)" % (TOKEN, TOKEN, QUOTED))
"""A chunk's first line, with the extensions that llhttp takes."""
LAST: Final = "the last request"
PREFACE: Final = b"PRI "
"""After it llhttp awaits the rest of HTTP/2's preface, until the deadline."""
TARGET: Final = re.compile(rb"/[^#]*")
METHODS: Final = frozenset(
    b"DELETE GET HEAD POST PUT OPTIONS TRACE COPY LOCK MKCOL MOVE PROPFIND PROPPATCH SEARCH UNLOCK BIND REBIND "
    b"UNBIND ACL REPORT MKACTIVITY CHECKOUT MERGE M-SEARCH NOTIFY SUBSCRIBE UNSUBSCRIBE PATCH PURGE MKCALENDAR "
    b"LINK UNLINK SOURCE QUERY".split()
)


class Request(NamedTuple):
    method: bytes
    target: bytes
    version: bytes
    headers: Headers
    body: bytes


class Reading(NamedTuple):
    """`ends` if no request may follow; None where more bytes decide."""

    requests: list[Request]
    ends: bool | None
    reason: str

    @property
    def is_refused(self) -> bool:
        """Return whether the last request is answered with 400."""
        return bool(self.ends) and self.reason != LAST


def read(data: bytes) -> Reading:
    """Read all requests, with what `LAXER` allows."""
    requests = list[Request]()
    while rest := data.lstrip(b"\r\n"):
        for pattern, plain in LAXER.values():
            rest = pattern.sub(plain, rest, count=1)
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_BYTES)
        connection.receive_data(rest)
        try:
            request = _next(connection)
        except h11.RemoteProtocolError as error:
            return Reading(requests, None if rest.startswith(PREFACE) else True, str(error))
        if request is None:
            return Reading(requests, None, "incomplete")
        data = connection.trailing_data[0]
        head, blank, body = rest[: len(rest) - len(data)].partition(b"\r\n\r\n")
        for reason, is_refused in STRICTER.items():
            if is_refused(head + blank, body, request):
                return Reading(requests, None if rest.startswith(PREFACE) else True, reason)
        requests.append(request)
        if connection.their_state is h11.MUST_CLOSE or _is_last(request, body):
            return Reading(requests, True, LAST)
    return Reading(requests, False, "complete")


def _next(connection: h11.Connection) -> Request | None:
    begun, body = None, b""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            begun = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert begun is not None
            return Request(begun.method, begun.target, begun.http_version, tuple(begun.headers), body)
        else:
            return None


def _values(request: Request, wanted: bytes) -> list[bytes]:
    return [value for name, value in request.headers if name == wanted]


def _chunk_lines(body: bytes) -> tuple[list[bytes], bytes]:
    """Return the lines before the chunks, and the trailers, of a chunked body that h11 has read."""
    lines, at = list[bytes](), 0
    while True:
        end = body.index(b"\r\n", at)
        lines.append(body[at:end])
        size = int(re.match(rb"[0-9A-Fa-f]+", lines[-1])[0], 16)  # type: ignore[index]
        at = end + 2 + size + (2 if size else 0)
        if not size:
            return lines, body[at:]


def _is_last(request: Request, body: bytes) -> bool:
    """Return whether the server closes after the response where h11 reads on.

    So it does after Upgrade, which it ignores, Proxy-Connection and trailers.
    """
    values = [*_values(request, b"connection"), *_values(request, b"proxy-connection")]
    trailers = _chunk_lines(body)[1] if _is_chunked(request) else b""
    trailing = re.findall(rb"(?i)(?:^|\r\n)(?:proxy-)?connection:([^\r]*)", trailers)
    if request.version == b"1.0" or b"close" in _tokens(values + trailing):
        return True
    return b"upgrade" in _tokens(values) and bool(_values(request, b"upgrade"))


def _tokens(values: list[bytes]) -> set[bytes]:
    return {token.strip().lower() for value in values for token in value.split(b",")}


def _is_chunked(request: Request) -> bool:
    return bool(_values(request, b"transfer-encoding"))


def _has_odd_chunk(body: bytes) -> bool:
    lines, trailers = _chunk_lines(body)
    framing = re.search(rb"(?i)(^|\r\n)(content-length|transfer-encoding):", trailers)
    return any(not CHUNK.fullmatch(line) for line in lines) or bool(ODD.search(trailers)) or framing is not None


ODD: Final = re.compile(rb"(?<!\r)\n|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|\n[ \t]")
"""A line ended by LF alone, a control character, or a folded line."""

LAXER: Final[Mapping[str, tuple[re.Pattern[bytes], bytes]]] = {
    "several spaces in the request line: RFC 9112 (3) lets servers take them for one": (
        re.compile(rb"\A([!-~]+) +([!-~]+) +(?=HTTP/|RTSP/|ICE/)"),
        rb"\1 \2 ",
    ),
    "RTSP and ICE in place of HTTP: llhttp takes their versions for HTTP's": (
        re.compile(rb"\A((?:GET|POST|OPTIONS) [!-~]+ )RTSP/|\A(SOURCE [!-~]+ )ICE/"),
        rb"\1\2HTTP/",
    ),
}
"""What the server takes and h11 refuses, with the reason; besides empty lines before a request (RFC 9112, 2.2)."""

STRICTER: Final[Mapping[str, Callable[[bytes, bytes, Request], bool]]] = {
    "a line that ends with LF alone, a control character or a folded line: proxies differ": lambda head, _, __: (
        bool(not head.endswith(b"\r\n\r\n") or ODD.search(head))
    ),
    "a method that llhttp does not know: no route has it": lambda _, __, request: request.method not in METHODS,
    "a version other than 1.1 and 1.0": lambda _, __, request: request.version not in (b"1.1", b"1.0"),
    "a target that is no path": lambda _, __, request: not TARGET.fullmatch(request.target),
    "two lengths, also equal ones": lambda head, _, request: (
        len(re.findall(rb"(?i)\r\ncontent-length:", head)) > 1
        or any(b"," in v for v in re.findall(rb"(?i)\r\ncontent-length:([^\r]*)", head))
    ),
    "a length beside chunks": lambda _, __, request: (
        _is_chunked(request) and bool(_values(request, b"content-length"))
    ),
    "chunks in HTTP/1.0": lambda _, __, request: _is_chunked(request) and request.version == b"1.0",
    "an odd chunk extension, or a length among trailers": lambda _, body, request: (
        _is_chunked(request) and _has_odd_chunk(body)
    ),
}
"""What the server refuses and h11 takes, with the reason."""
