"""Small files with many parts are rejected before they are decoded."""

import io
import struct
import time
import zlib
from collections.abc import Callable

import pytest
from PIL import Image

from libs.media import content_sniffing
from libs.media.picture_encoding import TOO_MANY_PARTS, NotAPicture, take_in
from tests.support.builders.pictures import encoded, halves, picture


def scans(copies: int) -> bytes:
    """A progressive JPEG whose last scan is there that often."""
    data = encoded(Image.new("L", (1_000, 1_000), 128), "jpg", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * copies + data[-2:]


def segments(count: int) -> bytes:
    data = picture("jpg")
    return data[:2] + b"\xff\xfe\0\x02" * count + data[2:]


def chunks(count: int) -> bytes:
    data, chunk = picture("png"), b"tEXt"
    made = struct.pack(">I", 0) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return data[:33] + made * count + data[33:]


def riff(count: int) -> bytes:
    data = picture("webp")
    body = data[12:] + b"JUNK\0\0\0\0" * count
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


def blocks(count: int) -> bytes:
    return in_gif(b"!\xfe" + b"\x01x" * count + b"\0")


def stray(count: int) -> bytes:
    return in_gif(b"\x01" * count)


def in_gif(data: bytes) -> bytes:
    gif = encoded(halves(), "gif")
    at = 13 + 3 * 2 ** ((gif[10] & 7) + 1)
    return gif[:at] + data + gif[at:]


@pytest.mark.parametrize(
    ("make", "few", "many"),
    [
        (scans, 20, 3_000),
        (segments, 1_000, 100_000),
        (chunks, 10_000, 100_000),
        (riff, 10_000, 100_000),
        (blocks, 4_000, 1_000_000),
        (stray, 4_000, 1_000_000),
    ],
)
def test_a_file_of_very_many_parts_is_refused_and_one_of_many_is_read(
    make: Callable[[int], bytes], few: int, many: int
) -> None:
    assert take_in(io.BytesIO(make(few)), 1_000_000).width > 0
    with pytest.raises(NotAPicture, match=TOO_MANY_PARTS):
        take_in(io.BytesIO(make(many)), 1_000_000)


@pytest.mark.parametrize("head", [b"\xff\xd8", b"\x89PNG\r\n\x1a\n", b"RIFF1234WEBP", b"GIF89a"])
@pytest.mark.parametrize("rest", [b"", b"\xff", b"\0", b"\xff\xda", b"!", b"!\xfe\x01"])
def test_broken_files_are_counted_through_in_linear_time(head: bytes, rest: bytes) -> None:
    began = time.process_time()
    content_sniffing.has_too_many_parts(head + rest * (10_000_000 // max(1, len(rest))))
    assert time.process_time() - began < 2
