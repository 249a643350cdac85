"""Bytes match their declared media type, or are rejected."""

import pytest

from libs.media.content_sniffing import TypeCheck
from tests.support.builders.pictures import zipped

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(100)
DOCX = zipped("word/document.xml", "<x/>")
WAV = b"RIFF\x24\0\0\0WAVEfmt " + bytes(100)


def passes(media_type: str, data: bytes, piece: int = 7) -> bool:
    scan = TypeCheck(media_type)
    for at in range(0, len(data), piece):
        scan.feed(data[at : at + piece])
    return scan.passed()


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("image/png", PNG),
        ("IMAGE/PNG", PNG),
        ("image/jpg", b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(100)),
        ("application/pdf", b"%PDF-1.7\n" + bytes(100)),
        ("application/zip", DOCX),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", DOCX),
        ("audio/wav", WAV),
        ("audio/x-wav", WAV),
        ("video/mp4", b"\0\0\0\x20ftypisom\0\0\2\0isomiso2avc1mp41" + bytes(100)),
        ("text/plain", "Füße".encode()),
        ("text/csv", b""),
        ("application/json", b'{"a": 1}'),
        ("image/svg+xml", b'<?xml version="1.0"?><svg/>'),
        ("application/octet-stream", b"MZ" + bytes(100)),
        ("application/vnd.of-our-own", PNG),
    ],
)
def test_what_bears_its_type_s_signature_passes(media_type: str, data: bytes) -> None:
    assert passes(media_type, data)


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("image/png", b"%PDF-1.7\n" + bytes(100)),
        ("image/png", b"<script>alert(1)</script>"),
        ("image/png", b""),
        ("image/png", b"x" + PNG),
        ("application/pdf", PNG),
        ("audio/wav", PNG),
        ("text/plain", PNG),
        ("text/plain", b"\xff\xfea\0"),
        ("text/plain", b"a\0b"),
        ("text/html", "ü".encode()[:1]),
        ("application/json", b"\x80"),
    ],
)
def test_what_is_something_else_does_not(media_type: str, data: bytes) -> None:
    assert not passes(media_type, data)


def test_text_is_looked_at_to_its_end() -> None:
    assert passes("text/plain", "ü".encode() * 200_000, 65_537)
    assert not passes("text/plain", "ü".encode() * 200_000 + b"\xff", 65_537)
