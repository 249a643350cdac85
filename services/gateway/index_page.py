"""`GET /`: leads to the dashboard, the documents and health, as a page or as JSON."""

from html import escape
from string import Template
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Header
from pydantic import BaseModel, Field, WithJsonSchema
from starlette.responses import Response

from libs.web.service import HttpModule

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
<h1>$title $version</h1>
<ul>
$links
</ul>
</main>
</body>
</html>
""")
LINKS: Final = {
    "dashboard": "/dashboard",
    "reference": "/docs",
    "openapi": "/openapi.json",
    "asyncapi": "/asyncapi",
    "live": "/livez",
    "ready": "/readyz",
}
TEXTS: Final = {
    "dashboard": "Dashboard: live results",
    "reference": "API reference",
    "openapi": "OpenAPI document",
    "asyncapi": "AsyncAPI document of the log",
    "live": "Health: the process runs",
    "ready": "Health: the service is ready",
}
Accept = Annotated[str | None, Header(description="With `text/html`, a page."), WithJsonSchema({"type": "string"})]


class Index(BaseModel):
    """Addresses to begin with, relative to this one."""

    name: str = Field(description="Name of the service.", examples=["Tallykeeper"])
    version: str = Field(description="Version of the responding code.")
    dashboard: str = Field(description=TEXTS["dashboard"] + ".")
    reference: str = Field(description=TEXTS["reference"] + ".")
    openapi: str = Field(description=TEXTS["openapi"] + ".")
    asyncapi: str = Field(description=TEXTS["asyncapi"] + ".")
    live: str = Field(description=TEXTS["live"] + ".")
    ready: str = Field(description=TEXTS["ready"] + ".")


def index_module(title: str, version: str) -> HttpModule:
    """Return the module of `/`."""
    router = APIRouter(tags=["operations"])
    links = "\n".join(f'<li><a href="{path}">{escape(TEXTS[name])}</a></li>' for name, path in LINKS.items())
    page = PAGE.substitute(title=escape(title), version=escape(version), links=links)
    document = orjson.dumps({"name": title, "version": version, **LINKS})
    described: dict[int | str, dict[str, Any]] = {
        200: {"description": "The addresses.", "content": {HTML: {"schema": {"type": "string"}}}}
    }

    @router.get("/", response_model=Index, responses=described)
    async def read_index(accept: Accept = None) -> Response:
        """Find the dashboard, the documents and health. Public: no key is needed."""
        if accept is not None and HTML in accept:
            return Response(page, headers=HEADERS | {"Content-Security-Policy": POLICY}, media_type=HTML)
        return Response(document, headers=HEADERS, media_type="application/json")

    return HttpModule(routers=[router])
