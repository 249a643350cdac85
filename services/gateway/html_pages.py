"""Pages of the gateway's own addresses, for those who accept HTML there; programs get a document."""

from string import Template
from typing import Annotated, Final

from fastapi import Header
from pydantic import WithJsonSchema
from starlette.responses import Response

HTML: Final = "text/html"
POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS: Final = {"Cache-Control": "public, max-age=60", "Vary": "Accept", "X-Content-Type-Options": "nosniff"}
PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<link rel="icon" href="/dashboard/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/dashboard/assets/shell.css">
</head>
<body>
<main>
$content
</main>
</body>
</html>
""")
"""A page; `title` and `content` are HTML."""
Accept = Annotated[str | None, Header(description="With `text/html`, a page."), WithJsonSchema({"type": "string"})]


def page_for(accept: str | None, page: str) -> Response | None:
    """Return the response with `page` if the caller accepts HTML; else None."""
    if accept is None or HTML not in accept:
        return None
    return Response(page, headers=HEADERS | {"Content-Security-Policy": POLICY}, media_type=HTML)
