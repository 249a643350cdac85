"""Addresses of pictures at the media host.

An address changes with the picture, so caches never show an old one.
"""

from collections.abc import Mapping
from typing import Any, Final

SIZES: Final = {"thumb": 150, "default": 800, "large": 1600}
"""Maximum length of each rendition's longer side, in pixels."""


def picture_version(document: Mapping[str, Any]) -> str:
    """Return the version of an image's picture: another one for another picture."""
    found: str = document["picture"]["object"]
    return found


def picture_url(key: str, document: Mapping[str, Any]) -> str:
    """Return the address of an image's picture, from `/`."""
    return f"/media/image/{key}?v={picture_version(document)}"


def picture_urls(key: str, document: Mapping[str, Any]) -> dict[str, str]:
    """Return the addresses of an image's renditions by size, from `/`."""
    return {size: f"{picture_url(key, document)}&size={size}" for size in SIZES}
