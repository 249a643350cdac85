"""Uploads of images over HTTP."""

from typing import Any

import httpx
import orjson

from libs.media.allowed_addresses import parse_allowed
from libs.media.url_fetcher import FetcherOnDemand
from tests.support.builders.pictures import picture

NO_FETCHER = FetcherOnDemand(parse_allowed(""), 0, 0)


async def upload(
    client: httpx.AsyncClient,
    data: bytes,
    name: str = "photo.png",
    headers: dict[str, str] | None = None,
    **parts: Any,
) -> httpx.Response:
    """`parts` that are no texts go as JSON text."""
    form = {key: value if isinstance(value, str) else orjson.dumps(value) for key, value in parts.items()}
    return await client.post("/images", files={"file": (name, data)}, data=form, headers=headers)


async def uploaded(client: httpx.AsyncClient, data: bytes | None = None, **parts: Any) -> dict[str, Any]:
    answer = await upload(client, picture() if data is None else data, **parts)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def legacy_code(answer: httpx.Response) -> tuple[int, str]:
    """Return status and code of an error in the legacy API's form."""
    return answer.status_code, answer.json()["error"]["code"]


def pointers(answer: httpx.Response) -> tuple[int, list[str]]:
    return answer.status_code, [error["pointer"] for error in answer.json().get("errors", ())]
