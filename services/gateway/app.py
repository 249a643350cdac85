"""The whole HTTP API in one process: mounts ingestion, query, catalogue and dashboard."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI

from libs.deployment.deployment import open_deployment
from libs.telemetry.tracing import Tracing
from libs.web.server.http_service import HttpModule, build_app
from services.catalogue.app import open_module as open_catalogue
from services.dashboard.app import open_module as open_dashboard
from services.gateway.pages import asyncapi_module, index_module
from services.gateway.settings import Settings
from services.ingestion.app import open_module as open_ingestion
from services.query.app import open_module as open_query

TITLE = "Tallykeeper"
TAGS: Final = {
    "votes": "Casting votes, their status, and voters' remaining votes.",
    "results": "Counts and results.",
    "contests": "A contest collects votes for participants.",
    "participants": "The choices of a contest: people or things to vote for.",
    "vote sources": "Votes counted elsewhere: by SMS, in a social network, in a television show.",
    "purchases": "Users' purchases, the origin of `c-paid` votes.",
    "shops": "A shop sells vote packages or subscriptions.",
    "master_shops": "Shops that apps refer to.",
    "conventions": "Schedules: days and venues.",
    "timeslots": "Entries of a schedule, with time and venue.",
    "apps": "Mobile apps: appearance, stores and log-in of users.",
    "surveys": "Surveys, under keys that the account chooses.",
    "feeds": "Lists of articles in an app.",
    "articles": "Articles of an app.",
    "files": "Files: their metadata, and upload and download of their content.",
    "images": "Images, served in several renditions.",
    "keys": "API keys of the account.",
    "account": "Settings of the caller's account: the brand of legacy records, and the looks of its pages.",
    "legacy": "The legacy API over the same records, for production and the test environment. Its writes do not "
    "support `Idempotency-Key`: check whether a create succeeded before sending it again.",
    "dashboard": "Log-in of browsers for the pages below `/dashboard`.",
    "operations": "Status and monitoring, for operators and their tools.",
}
"""Tags that group the operations, in the document's order."""
VERSION = version("tallykeeper")
DESCRIPTION: Final = """\
Cast votes, read counts and results, and manage contests.

**Way in.** `tally up` prints an API key with all permissions; `tally keys create` issues others. Send it as
`Authorization: Bearer tk_...`; on this page press *Authorize* and paste it. `GET /contests` is the first call: it
lists the account's contests. Then create a contest (`POST /contests`) and a participant, vote
(`POST /contests/{contest_key}/votes`), and read the count (`GET /contests/{contest_key}/vote_updates`).

**Errors** are problem details (RFC 9457); `code` is stable. Repeat a request with the same `vote_id` or
`Idempotency-Key` after any failure: it takes effect once. The log behind the API is described at `/asyncapi`.

**Generators of clients** read `/openapi/current.json`, this document without the legacy API, which has
`/openapi/legacy.json`."""

CONTACT: Final = {"name": "The operators of this service"}
SERVERS: Final = [{"url": "/", "description": "The server of this document."}]


@asynccontextmanager
async def open_app(settings: Settings, tracing: Tracing | None = None) -> AsyncIterator[FastAPI]:
    """Open the app of all services; they share its connections, which close when the context ends."""
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(open_deployment(settings, tracing))
        ingestion = await stack.enter_async_context(open_ingestion(settings, servers))
        query = await stack.enter_async_context(open_query(settings, servers))
        catalogue = await stack.enter_async_context(
            open_catalogue(settings, servers, query.enrichers, query.by_votes)
        )
        parts = (ingestion, query, catalogue)
        checks = {name: check for part in parts for name, check in {**part.optional_checks, **part.checks}.items()}
        dashboard = await stack.enter_async_context(open_dashboard(settings, servers, checks))
        http_modules = [
            ingestion,
            query,
            catalogue,
            dashboard,
            asyncapi_module(
                settings.namespace,
                settings.partitions,
                VERSION,
                settings.kafka_security_protocol,
                settings.kafka_sasl_mechanism,
            ),
            index_module(TITLE, VERSION),
        ]
        yield build(http_modules)


def build(http_modules: Sequence[HttpModule]) -> FastAPI:
    """Build the app of these modules, with its OpenAPI document."""
    tags = [{"name": name, "description": text} for name, text in TAGS.items()]
    about: dict[str, Any] = {
        "version": VERSION,
        "description": DESCRIPTION,
        "contact": CONTACT,
        "servers": SERVERS,
    }
    return build_app(TITLE, http_modules, openapi_tags=tags, **about)
