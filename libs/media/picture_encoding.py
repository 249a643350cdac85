"""Normalizes uploaded pictures and shrinks stored ones. CPU-bound, without I/O: for `decoder` processes.

Stored pictures are encoded again from the pixels, so that nothing else of an upload is ever served: no metadata,
no location, no second file after the first; known polyglots are refused. Only the first frame of an animation is
stored: width and height alone then bound the work for an upload.
"""

import io
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import IO, Any, Final, NamedTuple

from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError

from libs.media.content_sniffing import has_too_many_parts, is_something_else


class NotAPicture(ValueError):
    """The bytes are not an accepted picture; the message has the reason."""


class Format(NamedTuple):
    """A format and its encoder options."""

    pillow: str
    media_type: str
    options: dict[str, Any]


FORMATS: Final = {
    "jpg": Format("JPEG", "image/jpeg", {"quality": 90}),
    "png": Format("PNG", "image/png", {"compress_level": 3}),
    "webp": Format("WEBP", "image/webp", {"quality": 90, "method": 2}),
    "gif": Format("GIF", "image/gif", {}),
}
"""Accepted formats by their name in records. The default effort of PNG and WebP takes two or three times as long
for little gain."""
NAMES: Final = {made.pillow: name for name, made in FORMATS.items()} | {"MPO": "jpg"}
"""Names by Pillow's format; MPO is a JPEG followed by others, as some cameras make them."""
TOO_LARGE: Final = "takes too much memory to be read"
TOO_MANY_PARTS: Final = "has too many scans, segments or chunks"
SIXTEEN_BITS: Final = ("I", "I;16", "I;16B", "I;16L")


@dataclass(frozen=True, slots=True)
class Picture:
    """A normalized picture: upright, in sRGB, without metadata."""

    format: str
    width: int
    height: int
    data: bytes
    sha256: str


def take_in(file: IO[bytes], max_pixels: int, formats: Collection[str] = tuple(FORMATS)) -> Picture:
    """Normalize the picture in `file`, of any of `formats`. Raises `NotAPicture`."""
    data = file.read()
    is_polyglot, has_too_many = is_something_else(data), has_too_many_parts(data)
    file.seek(0)
    if has_too_many:
        raise NotAPicture(TOO_MANY_PARTS)
    try:
        with Image.open(file, formats=[FORMATS[name].pillow for name in formats]) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise _too_many(max_pixels)
            if is_polyglot:
                raise NotAPicture("is something else as well as a picture")
            name = NAMES[image.format or ""]
            plain = _plain(image)
            encoded = _encoded(plain, name)
            return Picture(name, *plain.size, encoded, sha256(encoded).hexdigest())
    except NotAPicture:
        raise
    except Image.DecompressionBombError:
        raise _too_many(max_pixels) from None
    except MemoryError:
        raise NotAPicture(TOO_LARGE) from None
    except UnidentifiedImageError:
        raise NotAPicture(f"is no picture of an accepted format: {', '.join(formats)}") from None
    except Exception as error:  # broken files make the decoders raise nearly any exception
        raise NotAPicture("is a broken picture, or not all of it") from error


def shrunk(data: bytes, name: str, longest: int) -> bytes:
    """Shrink a stored picture of format `name` to at most `longest` pixels on its longer side."""
    with Image.open(io.BytesIO(data), formats=[FORMATS[name].pillow]) as image:
        small = image.convert("RGBA" if image.has_transparency_data else "RGB") if image.mode == "P" else image
        small.thumbnail((longest, longest), Image.Resampling.LANCZOS, reducing_gap=2.0)
        return _encoded(small, name)


def _plain(image: Image.Image) -> Image.Image:
    """Return the pixels, rotated by the metadata, in sRGB, in a mode that the format supports."""
    image.load()
    mode = _mode(image)
    ImageOps.exif_transpose(image, in_place=True)
    if image.mode in SIXTEEN_BITS:
        image = image.point(lambda value: value / 256).convert("L")
    plain = _in_srgb(image).convert(mode)
    plain.info = {name: value for name, value in plain.info.items() if name == "transparency"}
    return plain


def _mode(image: Image.Image) -> str:
    if image.format == "GIF" and image.mode == "P":
        return "P"
    if image.has_transparency_data:
        return "RGBA"
    return "L" if image.mode in ("1", "L", *SIXTEEN_BITS) else "RGB"


def _in_srgb(image: Image.Image) -> Image.Image:
    """Convert to sRGB by the colour profile, if it has a usable one."""
    profile = image.info.get("icc_profile")
    if not profile or image.mode not in ("RGB", "RGBA", "CMYK"):
        return image
    mode = "RGB" if image.mode == "CMYK" else image.mode
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        turned = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode=mode)
    except (ImageCms.PyCMSError, OSError, ValueError):
        return image
    return turned or image


def _encoded(image: Image.Image, name: str) -> bytes:
    made = FORMATS[name]
    target = io.BytesIO()
    image.save(target, made.pillow, **made.options)
    return target.getvalue()


def _too_many(max_pixels: int) -> NotAPicture:
    return NotAPicture(f"has too many pixels: width times height may be {max_pixels:,} at most")
