"""`GET /`: leads to the dashboard, the documents and health, as a page or as JSON."""

from html import escape
from typing import Any, Final

import orjson
from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from libs.web.server.http_service import HttpModule
from services.gateway.html_pages import HEADERS, HTML, PAGE, Accept, page_for

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
    content = f"<h1>{escape(title)} {escape(version)}</h1>\n<ul>\n{links}\n</ul>"
    page = PAGE.substitute(title=escape(title), content=content)
    document = orjson.dumps({"name": title, "version": version, **LINKS})
    described: dict[int | str, dict[str, Any]] = {
        200: {"description": "The addresses.", "content": {HTML: {"schema": {"type": "string"}}}}
    }

    @router.get("/", response_model=Index, responses=described)
    async def read_index(accept: Accept = None) -> Response:
        """Find the dashboard, the documents and health. Public: no key is needed."""
        return page_for(accept, page) or Response(document, headers=HEADERS, media_type="application/json")

    return HttpModule(routers=[router])
