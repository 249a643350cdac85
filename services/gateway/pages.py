"""Pages of the gateway's own addresses, for those who accept HTML there; programs get a document."""

import asyncio
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from string import Template
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Header
from pydantic import BaseModel, Field, WithJsonSchema
from starlette.responses import Response

from libs.web.server.http_service import HttpModule

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

    @router.get("/", summary="Read the service's addresses", response_model=Index, responses=described)
    async def read_index(accept: Accept = None) -> Response:
        """Find the dashboard, the documents and health. Public: no key is needed."""
        return page_for(accept, page) or Response(document, headers=HEADERS, media_type="application/json")

    return HttpModule(routers=[router])


CONTENT: Final = Template("""<h1>$title</h1>
<p>$description</p>
<p>Programs get the AsyncAPI document at this address, unless they accept <code>text/html</code>.
<a href="/">All documents</a></p>
$topics""")


ASYNCAPI: Final = {
    "type": "object",
    "description": "An AsyncAPI document.",
    "required": ["asyncapi", "info", "servers", "channels", "operations", "components"],
    "properties": {
        "asyncapi": {"type": "string", "description": "Version of AsyncAPI."},
        **{
            name: {"type": "object", "description": description}
            for name, description in (
                ("info", "Title, version and description."),
                ("servers", "Protocol and security of the log's brokers."),
                ("channels", "The topics, and the events of each."),
                ("operations", "What a reader receives of each topic."),
                ("components", "The events, and the schemas of their members."),
            )
        },
    },
}


def asyncapi_module(
    namespace: str, partitions: int, version: str, protocol: str = "PLAINTEXT", mechanism: str = "PLAIN"
) -> HttpModule:
    """Return the module of `/asyncapi`, of a log with this security; the first request builds the document."""

    @cache
    def document_and_page() -> tuple[bytes, str]:
        from libs.contracts.asyncapi import Access, asyncapi_document  # noqa: PLC0415 (its schemas delay the start)

        description = asyncapi_document(namespace, partitions, version, Access(protocol, mechanism))
        return orjson.dumps(description), asyncapi_page(description)

    router = APIRouter(tags=["operations"])
    described: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "The topics and their records.",
            "content": {
                "application/json": {"schema": ASYNCAPI},
                HTML: {"schema": {"type": "string"}},
            },
        }
    }

    @router.get(
        "/asyncapi", summary="Read the document of the events", response_class=Response, responses=described
    )
    async def read_asyncapi(accept: Accept = None) -> Response:
        """Read the log's description (AsyncAPI)."""
        document, page = await asyncio.to_thread(document_and_page)
        json = Response(document, headers={"Vary": "Accept"}, media_type="application/json")
        return page_for(accept, page) or json

    return HttpModule(routers=[router])


def asyncapi_page(document: Mapping[str, Any]) -> str:
    """Render the topics, with the events of each and their members."""
    info, schemas = document["info"], document["components"]["schemas"]
    topics = (line for name in document["channels"] for line in _topic(name, document, schemas))
    title = escape(info["title"])
    content = CONTENT.substitute(title=title, description=escape(info["description"]), topics="\n".join(topics))
    return PAGE.substitute(title=title, content=content)


def _topic(name: str, document: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    channel = document["channels"][name]
    yield f"<h2>{escape(name)}: <code>{escape(channel['address'])}</code></h2>"
    yield f"<p>{escape(channel['description'])}</p>"
    for event in channel["messages"]:
        schema = schemas[event]
        yield f"<h3>{escape(event)}</h3>\n<p>{escape(schema.get('description', ''))}</p>\n<ul>"
        for member, its in schema.get("properties", {}).items():
            about = f": {escape(its['description'])}" if "description" in its else ""
            yield f"<li><code>{escape(member)}</code> {escape(_type(its))}{about}</li>"
        yield "</ul>"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    return str(schema.get("type", ""))
