"""Random bytes as clients send them to a server: valid, odd and hostile requests, also several at once."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

METHODS: Final = (b"GET", b"POST", b"PUT", b"DELETE", b"PATCH", b"HEAD", b"OPTIONS")
ODD_METHODS: Final = (b"get", b"FOO", b"M-SEARCH", b"CONNECT", b"PRI", b"", b"G@T", b"TRACE", b"GETX", b"SOURCE")
TARGETS: Final = (b"/a", b"/", b"/a?b=c", b"/direct/x", b"/direct/y?at=1", b"/a%2Fb", b"/direct/x/")
ODD_TARGETS: Final = (
    *(b"*", b"http://h/a", b"/a#f", b"//", b"h:80", b"", b"/\xff", b"/a b", b"/a\tb", b"?", b"http://", b"/a\x00"),
    *(b"/[", b"/direct/x#f", b"/%", b"/direct/%61", b'/"', b"/a?b?c#d", b"http://u@h:1/", b"/{}", b"/\x7f"),
)
VERSIONS: Final = (b"HTTP/1.1",)
ODD_VERSIONS: Final = (
    *(b"HTTP/1.0",) * 4,  # other members are right or wrong with it
    *(b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.2", b"http/1.1", b"HTTP/1.1 ", b"", b"HTTP/11", b"HTTP/1"),
    *(b"HTTP/1.10", b"HTTP/3.0", b"ICE/1.0", b"HTTP/1.1\t", b"RTSP/1.0"),
)
HEADERS: Final = (
    *(b"Accept: */*", b"X-Empty:", b"X-Space:   a  b  ", b"x_y: 1", b"Cookie: a=b; c=d", b"User-Agent: test/1.0"),
    *(b"Expect: 100-continue", b"Connection: keep-alive", b"Authorization: Bearer abc", b"X-Tab:\ta\t"),
)
ODD_CODINGS: Final = (b"Chunked", b"chunked, chunked", b"gzip, chunked", b"chunked, gzip", b"identity", b"")
ODD_HEADERS: Final = (
    *(b"Connection: close", b"Connection: Upgrade\r\nUpgrade: h2c", b"Connection: upgrade\r\nUpgrade: websocket"),
    *(b"Connection: keep-alive, close", b"Upgrade: websocket", b"Connection: upgrade", b"Connection: CLOSE , x"),
    *(b"Proxy-Connection: close", b"Expect: 100-Continue", b"Expect: gold", b"Host: other", b"host : h", b"Host:"),
    *(b"Content-Length: " + value for value in (b"5", b"5, 5", b"+5", b"0x5", b"-1", b"9" * 20, b"5 5", b"05")),
    *(b"Content-Length:", b"Content-Length : 5", b"Content_Length: 5", b"Transfer-Encoding:"),
    *(b"Transfer-Encoding: " + coding for coding in (b"chunked", b"xchunked", *ODD_CODINGS)),
    b"Transfer-Encoding:\x0bchunked",
    *(b"TE: trailers", b"Trailer: X", b"no colon", b": no name", b" X: leading", b"X Y: space"),
    *(b"X: a\r\n folded", b"X: a\r\n\tfolded", b"X\x00: a", b"X\xff: a"),
    *(b"X: " + value for value in (b"\x00", b"\x01", b"\x7f", b"\xff", b"a\rb", b"a\x0bb")),
    *(b"X:\r\n", b"\tX: a", b"X: a\x0c", b"(X): a", b"X: \x1f", b"X\t: a", b"X: a\r\n ", b"Host: h\r\n folded"),
)
CHUNK_EXTENSIONS: Final = (
    *(b"",) * 3,
    *(b";a", b";a=b", b';a="b"', b"; a = b ", b";", b" ", b"\t", b';a="b;c\\""', b";\x00", b";=", b";a=\xff"),
    *(b" ;a", b';a="b'),
)
ODD_SIZES: Final = (b"0x5", b"-1", b"", b"g", b"F" * 17, b"00000005", b" 5", b"5 ", b"+5")
TRAILERS: Final = (
    *(b"",) * 3,
    *(b"Connection: upgrade\r\nUpgrade: x\r\n", b"Connection: close\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"Content-Length: 5\r\n", b"Host: h\r\n", b"X: y\r\n", b"X: y\r\n z\r\n", b"X : y\r\n", b"X: \x01\r\n"),
    *(b": y\r\n", b"bad\r\n"),
)
BYTES: Final = (b"\r\n", *(bytes([byte]) for byte in b"\r\n \t:\x00\xff05aG;,\x0b"))
SINGLE_BYTES: Final = 300
"""More than most heads: all bytes of a body of thousands would take most of the time of all cases."""


def case(draw: random.Random) -> tuple[bytes, ...]:
    """Return the segments that a client sends."""
    oddness = draw.choice((0.0, 0.2, 0.2, 1.0))
    data = b"".join(_request(draw, oddness) for _ in range(draw.choice((1, 1, 2, 3, 4))))
    if draw.random() < 0.25:
        data = _mutated(draw, data)
    if draw.random() < 0.05:
        data = data[: draw.randrange(len(data) + 1)]
    if draw.random() < 0.05:
        data += draw.choice(
            (b"\r\n" * 3, b"\n", b"junk", b"\x16\x03\x01", b"GET", b"\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        )
    return cut(draw, data)


def cut(draw: random.Random, data: bytes) -> tuple[bytes, ...]:
    """Cut into random segments, sometimes single bytes for a while."""
    number = draw.choice((0, 0, 1, 2, 5, 20))
    single = range(0)
    if draw.random() < 0.03:
        begin = draw.choice((0, draw.randrange(len(data) + 1)))
        single = range(begin, min(begin + SINGLE_BYTES, len(data)))
    places = sorted({0, len(data), *single, *(draw.randrange(len(data) + 1) for _ in range(number))})
    return tuple(data[begin:end] for begin, end in pairwise(places))


def _request(draw: random.Random, oddness: float) -> bytes:
    """Return a plain request (0.0), one with few odd members, mostly a single one (0.2), or with several (1.0)."""

    def odd(share: float) -> bool:
        return draw.random() < share * oddness

    def one(plain: Sequence[bytes], others: Sequence[bytes], share: float = 0.12) -> bytes:
        return draw.choice(others if odd(share) else plain)

    method = one(METHODS, ODD_METHODS)
    first = method + b" " + one(TARGETS, ODD_TARGETS) + b" " + one(VERSIONS, ODD_VERSIONS)
    lines = list[bytes]()
    is_old = first.endswith(b" HTTP/1.0")
    if not (odd(0.1) or (is_old and draw.random() < 0.5)):
        lines.append(b"Host: h")
    if is_old and draw.random() < 0.5:
        lines.append(b"Connection: keep-alive")
    lines += [one(HEADERS, ODD_HEADERS, 0.25) for _ in range(draw.choice((0, 1, 1, 2, 4)))]
    body = b""
    has_body = method in (b"POST", b"PUT", b"PATCH") or oddness
    form = draw.choice(("none", "none", "length", "chunked")) if has_body else "none"
    if form == "length":
        body = _content(draw)
        lines.append(b"Content-Length: %d" % (len(body) + (draw.choice((-1, 1, 5)) if odd(0.05) else 0)))
    elif form == "chunked":
        coding = draw.choice(ODD_CODINGS) if odd(0.2) else b"chunked"
        lines.append(b"Transfer-Encoding: " + coding)
        body = _chunked(draw, odd)
    draw.shuffle(lines)
    end = b"\n" if odd(0.03) else b"\r\n"
    return end.join((first, *lines, b"", b"")) + body


def _content(draw: random.Random) -> bytes:
    kind = draw.random()
    if kind < 0.3:
        return b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
    if kind < 0.35:
        return draw.randbytes(draw.randrange(9000))
    return draw.randbytes(draw.randrange(40))


def _chunked(draw: random.Random, odd: Callable[[float], bool]) -> bytes:
    parts: list[bytes] = []
    for _ in range(draw.randrange(4)):
        content = _content(draw)
        if content:
            size = b"%x" % len(content)
            if odd(0.05):
                size = draw.choice((*ODD_SIZES, size.upper()))
            extension = draw.choice(CHUNK_EXTENSIONS) if odd(0.8) else b""
            end = draw.choice((b"\n", b"\r", b"", b"\r\n\r\n")) if odd(0.02) else b"\r\n"
            parts += size, extension, b"\r\n", content, end
    extension = draw.choice(CHUNK_EXTENSIONS) if odd(0.8) else b""
    trailers = draw.choice(TRAILERS) if odd(0.8) else b""
    return b"".join((*parts, draw.choice((b"0", b"0", b"000")), extension, b"\r\n", trailers, b"\r\n"))


def _mutated(draw: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4))):
        at = draw.randrange(len(changed) + 1)
        changed[at : at + draw.choice((0, 0, 1, 1, 2, 10))] = draw.choice(BYTES) if draw.random() < 0.7 else b""
    return bytes(changed)
