"""Checks streamed bytes against their media type; `clamd` scans them for malware."""

import codecs
import re
from typing import Final

import puremagic

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
