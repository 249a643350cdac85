"""Checks bytes against their media type, against polyglots, and for parts that would keep a decoder busy.

`clamd` scans them for malware.
"""

import codecs
import io
import re
import zipfile
from typing import Final

import puremagic

PDF: Final = b"%PDF-"
PDF_WITHIN: Final = 1024
"""PDF readers accept the signature within so many bytes."""
ARCHIVES: Final = (b"Rar!\x1a\x07", b"7z\xbc\xaf\x27\x1c")
MARKUP: Final = re.compile(rb"<(?:(?i:script|html)[\s/>]|\?(?i:php)\s)")
COMMENT_BEGINS: Final = re.compile(rb"(?s:GIF8[79]a|RIFF|\xff\xd8\xff.)/\*")
"""JavaScript parses the first bytes of a picture as a name, then its size as the start of a comment."""
COMMENT_ENDS: Final = re.compile(rb"\*/\s*[=;(,]")


def is_something_else(data: bytes) -> bool:
    """Return whether the data is also valid as an archive, a PDF, a page, or a script."""
    return (
        PDF in data[:PDF_WITHIN]
        or any(archive in data for archive in ARCHIVES)
        or zipfile.is_zipfile(io.BytesIO(data))
        or MARKUP.search(data) is not None
        or (COMMENT_BEGINS.match(data) is not None and COMMENT_ENDS.search(data) is not None)
    )


HEAD_BYTES: Final = 64 << 10
"""Bytes searched for signatures; the furthest ones, of disk images, are within the first 33 KB."""
TEXT: Final = re.compile(r"text/.+|application/(json|xml|javascript|ndjson)|.+\+(json|xml)")
MEANT: Final = {"image/jpg": "image/jpeg", "audio/mp3": "audio/mpeg"}


class TypeCheck:
    """Checks bytes of a media type: text is UTF-8, and types with a known signature have it.

    Types without a signature, such as `application/octet-stream`, always pass.
    """

    def __init__(self, media_type: str) -> None:
        self._type = _plain(media_type)
        self._decoder = codecs.getincrementaldecoder("utf-8")() if TEXT.fullmatch(self._type) else None
        self._head = b""
        self._is_text = True

    def feed(self, chunk: bytes) -> None:
        if self._decoder is None:
            self._head += chunk[: HEAD_BYTES - len(self._head)]
        elif self._is_text:
            self._decode(chunk)

    def passed(self) -> bool:
        if self._decoder is not None:
            self._decode(b"", final=True)
            return self._is_text
        return self._type not in SIGNED or self._type in _found(self._head)

    def _decode(self, chunk: bytes, *, final: bool = False) -> None:
        assert self._decoder is not None
        try:
            text = self._decoder.decode(chunk, final)
        except UnicodeDecodeError:
            self._is_text = False
        else:
            self._is_text = self._is_text and "\0" not in text


def _plain(media_type: str) -> str:
    """Drop parameters, and normalize synonymous media types."""
    lower = media_type.partition(";")[0].strip().lower()
    kind, _, name = MEANT.get(lower, lower).partition("/")
    return f"{kind}/{name.removeprefix('x-')}"


def _found(head: bytes) -> set[str]:
    """Return the media types whose signatures match."""
    try:
        return {_plain(match.mime_type) for match in puremagic.magic_string(head)}
    except (puremagic.PureError, ValueError):
        return set()


SIGNED: Final = {_plain(each.mime_type) for each in puremagic.magic_header_array} - {"application/octet-stream"}
"""Media types with a known signature."""


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
