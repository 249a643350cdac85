"""Cross-origin access (CORS): paths that pages of every origin may use, because no cookie or key opens them.

Credentials are never allowed: browsers then send none, and hide the response if some were sent.
"""

import re
from typing import Any, Final

from starlette.responses import Response

PUBLIC: Final = re.compile(r"/public/.*", re.DOTALL)
UPLOAD: Final = re.compile(r"/files/[^/]+/content")
"""The signature in an `upload_url` takes the place of a key."""
OPEN: Final = ((PUBLIC, "GET, HEAD"), (UPLOAD, "GET, HEAD, PUT, DELETE"))
"""Paths, and the methods that pages of other origins may use."""
REQUEST_HEADERS: Final = "Content-Type, If-Match, If-None-Match, If-Range, Last-Event-ID, Range"
RESPONSE_HEADERS: Final = (
    b"Content-Disposition, Content-Range, ETag, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id"
)
HEADERS: Final = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", RESPONSE_HEADERS),
]
"""Headers of every response, also of errors."""
REMEMBERED_S: Final = 86_400


def methods_for_all(path: str) -> str | None:
    """Return the methods that pages of other origins may use; None if the path is closed to them."""
    return next((methods for pattern, methods in OPEN if pattern.fullmatch(path)), None)


def headers_of(path: str) -> list[tuple[bytes, bytes]]:
    """Return the headers of every response to a request for `path`, as the client wrote it."""
    return HEADERS if methods_for_all(path.rstrip("/")) else []


def preflight(scope: Any, methods: str) -> Response | None:
    """Return the response to a browser's question before a request to a path that is open for `methods`.

    Returns None if the request is no such question.
    """
    if scope["method"] != "OPTIONS" or all(
        name != b"access-control-request-method" for name, _ in scope["headers"]
    ):
        return None
    headers = {
        "Access-Control-Allow-Methods": methods,
        "Access-Control-Allow-Headers": REQUEST_HEADERS,
        "Access-Control-Max-Age": str(REMEMBERED_S),
    }
    return Response(status_code=204, headers=headers)
