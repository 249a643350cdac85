"""One process that serves the whole HTTP API: it mounts ingestion, query and catalogue."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version

import orjson
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from libs.web.service import Surface, build_app
from services.catalogue.app import open_surface as open_catalogue
from services.gateway.settings import Settings
from services.ingestion.app import open_surface as open_ingestion
from services.projector.asyncapi import asyncapi_document
from services.query.app import open_surface as open_query

TITLE = "Tallykeeper"
VERSION = version("tallykeeper")


@asynccontextmanager
async def open_app(settings: Settings) -> AsyncIterator[FastAPI]:
    """The app of all parts; each closes what it opened when the context ends."""
    async with AsyncExitStack() as stack:
        ingestion = await stack.enter_async_context(open_ingestion(settings))
        query = await stack.enter_async_context(open_query(settings))
        catalogue = await stack.enter_async_context(open_catalogue(settings, query.completes))
        surfaces = [ingestion, query, catalogue, asyncapi_surface(settings)]
        yield build_app(TITLE, surfaces, version=VERSION)


def asyncapi_surface(settings: Settings) -> Surface:
    """`/asyncapi`: the topics and what lies in them."""
    document = orjson.dumps(asyncapi_document(settings.namespace, settings.partitions, VERSION))

    async def asyncapi(_: Request) -> Response:
        return Response(document, media_type="application/json")

    return Surface(routes=[Route("/asyncapi", asyncapi)])
