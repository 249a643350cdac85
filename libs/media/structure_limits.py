"""Limits the parts that a decoder processes one by one, so that a small file cannot keep it busy.

Decoding time grows with the pixels times a JPEG's scans, and with the number of segments, chunks or blocks.
Cameras and editors write a dozen scans and some hundreds of the others.
"""

import re
from typing import Final

MAX_SCANS: Final = 100
"""Scans of a JPEG; encoders write about ten."""
MAX_SEGMENTS: Final = 2_000
"""Segments of a JPEG before its end; metadata of 10 MB fills 160."""
MAX_CHUNKS: Final = 20_000
"""Chunks of a PNG or WebP; encoders write 8 kB of pixels in each."""
MAX_BLOCKS: Final = 5_000
"""Blocks of up to 255 bytes before the first picture of a GIF."""

JPEG, PNG, GIF, RIFF = b"\xff\xd8", b"\x89PNG\r\n\x1a\n", (b"GIF87a", b"GIF89a"), b"RIFF"
_MARKER: Final = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
"""Matches markers other than escaped pixel bytes and restarts between them."""
_EOI, _SOI, _TEM, _SOS = 0xD9, 0xD8, 0x01, 0xDA
_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B


def has_too_many_parts(data: bytes) -> bool:
    """Return whether decoding could take much longer than the pixels need; ignores broken files."""
    if data.startswith(JPEG):
        return _jpeg(data)
    if data.startswith(PNG):
        return _png(data)
    if data.startswith(RIFF):
        return _webp(data)
    return data.startswith(GIF) and _gif(data)


def _jpeg(data: bytes) -> bool:
    """Count scans and segments of the first picture in the file."""
    at, scans, segments = len(JPEG), 0, 0
    while (marker := _MARKER.search(data, at)) is not None:
        at, kind = marker.end(), data[marker.end() - 1]
        if kind == _EOI:
            return False
        if kind not in (_SOI, _TEM):
            at += int.from_bytes(data[at : at + 2], "big")
        scans += kind == _SOS
        segments += 1
        if scans > MAX_SCANS or segments > MAX_SEGMENTS:
            return True
    return False


def _png(data: bytes) -> bool:
    """Count chunks of size, name, contents and checksum."""
    at = len(PNG)
    for _ in range(MAX_CHUNKS):
        at += 12 + int.from_bytes(data[at : at + 4], "big")
        if at >= len(data):
            return False
    return True


def _webp(data: bytes) -> bool:
    """Count chunks of name, size and contents, padded to an even number of bytes."""
    at = 12
    for _ in range(MAX_CHUNKS):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        at += 8 + size + (size & 1)
        if at >= len(data):
            return False
    return True


def _gif(data: bytes) -> bool:
    """Count the blocks of extensions; decoders skip bytes of neither these nor a picture one by one."""
    palette = 3 << (data[10] & 7) + 1 if len(data) > 10 and data[10] & 0x80 else 0
    at, blocks = 13 + palette, 0
    while at < len(data) and data[at] not in (_IMAGE, _TRAILER) and blocks <= MAX_BLOCKS:
        is_extension = data[at] == _EXTENSION
        at, blocks = at + 1 + is_extension, blocks + 1
        while is_extension and at < len(data) and data[at] and blocks <= MAX_BLOCKS:
            at, blocks = at + 1 + data[at], blocks + 1
        at += is_extension
    return blocks > MAX_BLOCKS
