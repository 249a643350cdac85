"""`/docs` and `/redoc`: API reference pages that load nothing from other hosts, so they work offline."""

from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

DOCUMENT: Final = "/openapi.json"
ASSETS: Final = "/docs/assets"
START: Final = f"""SwaggerUIBundle({{
  url: "{DOCUMENT}",
  dom_id: "#page",
  deepLinking: true,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIBundle.SwaggerUIStandalonePreset],
}});
"""
PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<link rel="icon" href="$assets/favicon.png">
$head</head>
<body>
$body</body>
</html>
""")
SWAGGER: Final = (
    f'<link rel="stylesheet" href="{ASSETS}/swagger-ui.css">\n',
    f'<div id="page"></div>\n<script src="{ASSETS}/swagger-ui-bundle.js"></script>\n'
    '<script src="/docs/start.js"></script>\n',
)
REDOC: Final = (
    "",
    f'<redoc spec-url="{DOCUMENT}"></redoc>\n<script src="{ASSETS}/redoc.standalone.js"></script>\n',
)
LOGO_ELSEWHERE: Final = b"https://cdn.redoc.ly/redoc/logo-mini.svg"
LOGO: Final = f"{ASSETS}/favicon.png".encode()
"""Replaces the only image that ReDoc loads from another origin."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self' data:; "
    "style-src 'self' 'unsafe-inline'; worker-src blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content Security Policy: this origin only, and no inline scripts. Both pages use inline styles, and ReDoc
searches in a worker from a blob."""


def page_routes(title: str) -> list[BaseRoute]:
    """Return the routes of the pages for an app of this title."""

    def page(kind: tuple[str, str]) -> Response:
        head, body = kind
        html = PAGE.substitute(title=escape(title), assets=ASSETS, head=head, body=body)
        headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
        return Response(html, headers=headers, media_type="text/html")

    async def swagger(_: Request) -> Response:
        return page(SWAGGER)

    async def redoc(_: Request) -> Response:
        return page(REDOC)

    async def start(_: Request) -> Response:
        return Response(START, media_type="text/javascript")

    static = files("fastapi_offline") / "static"

    @cache
    def script() -> bytes:
        return (static / "redoc.standalone.js").read_bytes().replace(LOGO_ELSEWHERE, LOGO)

    async def redoc_script(_: Request) -> Response:
        return Response(script(), media_type="text/javascript")

    return [
        Route("/docs", swagger),
        Route("/redoc", redoc),
        Route("/docs/start.js", start),
        Route(f"{ASSETS}/redoc.standalone.js", redoc_script),
        Mount(ASSETS, StaticFiles(directory=str(static))),
    ]
