"""Builds pictures of every format, and archives."""

import io
import struct
import zipfile
import zlib
from typing import Any

from PIL import Image

PILLOW = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP", "gif": "GIF"}
RED, BLUE = (220, 30, 30), (30, 30, 220)


def halves(width: int = 40, height: int = 20) -> Image.Image:
    """Return a picture whose left half is red and right half blue."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (width // 2, 0, width, height))
    return image


def encoded(image: Image.Image, name: str = "png", **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, PILLOW[name], **options)
    return target.getvalue()


def picture(name: str = "png", width: int = 40, height: int = 20) -> bytes:
    return encoded(halves(width, height), name)


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def bomb(width: int, height: int) -> bytes:
    """Return a PNG of few bytes and many pixels."""
    rows = zlib.compressobj(9)
    data = b"".join(rows.compress(b"\0" * (width // 8 + 1)) for _ in range(height)) + rows.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def zipped(name: str, content: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(name, content)
    return target.getvalue()


def is_red(colour: Any) -> bool:
    red, _, blue, *_ = colour
    return bool(red > 150 and blue < 100)


def is_blue(colour: Any) -> bool:
    red, _, blue, *_ = colour
    return bool(blue > 150 and red < 100)
