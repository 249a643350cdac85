"""Addresses of images' pictures in the records of the current API."""

from typing import Any

from libs.web.auth import ApiKey


class ImageUrls:
    """Completes the addresses of images; a `Complete`. `public_url` is their origin, if set."""

    def __init__(self, public_url: str) -> None:
        self._public_url = public_url

    async def __call__(self, _: ApiKey, origin: str, images: list[dict[str, Any]]) -> None:
        before = self._public_url or origin
        for image in images:
            image["url"] = before + image["url"]
            image["sizes"] = {size: before + url for size, url in image["sizes"].items()}
