"""One process that serves the whole HTTP API: it mounts ingestion, query, catalogue and dashboard."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Final

import orjson
from fastapi import APIRouter, FastAPI
from starlette.responses import Response

from libs.contracts.asyncapi import asyncapi_document
from libs.deployment.guard import open_guard
from libs.telemetry.tracing import Tracing
from libs.web.service import HttpModule, build_app
from services.catalogue.app import open_surface as open_catalogue
from services.dashboard.app import open_surface as open_dashboard
from services.gateway.settings import Settings
from services.ingestion.app import open_surface as open_ingestion
from services.query.app import open_surface as open_query

TITLE = "Tallykeeper"
TAGS: Final = {
    "shops": "A shop sells vote packages or subscriptions.",
    "master_shops": "Shops that apps refer to.",
    "conventions": "Schedules: days and venues.",
    "timeslots": "What happens when and where in a schedule.",
    "contests": "A contest collects votes for participants.",
    "participants": "Whom or what one votes for in a contest.",
    "votes": "Casting votes, what became of them, and what a voter may still cast.",
    "results": "Counts and results.",
    "vote sources": "Votes counted elsewhere: by SMS, in a social network, in a television show.",
    "purchases": "What users bought; votes of `c-paid` come from here.",
    "apps": "Mobile apps: appearance, stores, and how users log in.",
    "surveys": "Surveys, at keys of the account's own.",
    "feeds": "Lists of articles in an app.",
    "articles": "Articles of an app.",
    "files": "Metadata of files, and where their bytes are handled.",
    "images": "Images, of which renditions are served.",
    "legacy": "The legacy API, over the same records: production, and the test environment. Its "
    "writes know no `Idempotency-Key`: see whether a create came through before it is sent again.",
    "dashboard": "Log-in of browsers, for the pages below `/dashboard`.",
    "operations": "For operators, and for machines that look after the service.",
}
"""What operations are grouped by, in the order of the description."""
VERSION = version("tallykeeper")
JSON: Final = "application/json"


@asynccontextmanager
async def open_app(settings: Settings, tracing: Tracing | None = None) -> AsyncIterator[FastAPI]:
    """The app of all parts; each closes what it opened when the context ends."""
    async with AsyncExitStack() as stack:
        guard = await stack.enter_async_context(open_guard(settings))
        ingestion = await stack.enter_async_context(open_ingestion(settings, tracing, guard))
        query = await stack.enter_async_context(open_query(settings, guard))
        catalogue = await stack.enter_async_context(open_catalogue(settings, query.enrichers, tracing, guard))
        parts = (ingestion, query, catalogue)
        checks = {name: check for part in parts for name, check in {**part.optional_checks, **part.checks}.items()}
        dashboard = await stack.enter_async_context(open_dashboard(settings, checks))
        http_modules = [ingestion, query, catalogue, dashboard, asyncapi_surface(settings)]
        yield build(http_modules)


def build(http_modules: Sequence[HttpModule]) -> FastAPI:
    """The app of these surfaces, with its description."""
    tags = [{"name": name, "description": text} for name, text in TAGS.items()]
    return build_app(TITLE, http_modules, version=VERSION, openapi_tags=tags)


def asyncapi_surface(settings: Settings) -> HttpModule:
    """`/asyncapi`: the topics and what lies in them."""
    document = orjson.dumps(asyncapi_document(settings.namespace, settings.partitions, VERSION))
    router = APIRouter(tags=["operations"])
    described = {
        "description": "The topics and what lies in them.",
        "content": {JSON: {"schema": {"type": "object"}}},
    }

    @router.get("/asyncapi", response_class=Response, responses={200: described})
    async def read_asyncapi() -> Response:
        """Read the log's description (AsyncAPI)."""
        return Response(document, media_type=JSON)

    return HttpModule(routers=[router])
