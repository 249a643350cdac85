"""JSON responses, marked if they answer a repeated request."""

from collections.abc import Mapping
from typing import Final

import orjson
from starlette.responses import Response

NO_STORE: Final = {"Cache-Control": "no-store"}
NO_HEADERS: Final[Mapping[str, str]] = {}


def json_response(
    body: object, status: int = 200, headers: Mapping[str, str] = NO_HEADERS, *, replayed: bool = False
) -> Response:
    """Return `body` as JSON; `replayed` adds the header `Idempotent-Replayed`."""
    sent = {**headers, "Idempotent-Replayed": "true"} if replayed else dict(headers)
    return Response(orjson.dumps(body), status, sent, "application/json")
