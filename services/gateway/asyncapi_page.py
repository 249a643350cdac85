"""`GET /asyncapi`: describes the topics and their records, as an AsyncAPI document or as a page."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from string import Template
from typing import Any, Final

import orjson
from fastapi import APIRouter
from starlette.responses import Response

from libs.web.server.http_service import HttpModule
from services.gateway.html_pages import HTML, PAGE, Accept, page_for

REFERENCE: Final = re.compile(r"#/components/schemas/(\w+)")
CONTENT: Final = Template("""<h1>$title</h1>
<p>$description</p>
<p>Programs get the AsyncAPI document at this address, unless they accept <code>text/html</code>.
<a href="/">All documents</a></p>
$topics""")


def asyncapi_module(namespace: str, partitions: int, version: str) -> HttpModule:
    """Return the module of `/asyncapi`. The document is built at the first request."""

    @cache
    def document_and_page() -> tuple[bytes, str]:
        from libs.contracts.asyncapi import asyncapi_document  # noqa: PLC0415 (FastStream delays the start)

        description = asyncapi_document(namespace, partitions, version)
        return orjson.dumps(description), asyncapi_page(description)

    router = APIRouter(tags=["operations"])
    described: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "The topics and their records.",
            "content": {
                "application/json": {"schema": {"type": "object"}},
                HTML: {"schema": {"type": "string"}},
            },
        }
    }

    @router.get("/asyncapi", response_class=Response, responses=described)
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
    payload = orjson.dumps(schemas[f"{name}:Message:Payload"]).decode()
    for event in dict.fromkeys(REFERENCE.findall(payload)):
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
