"""`/metrics` has two formats, whatever a caller accepts."""

import gc
import time

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from libs.telemetry.metrics import REGISTRY
from libs.web.responses import OncePerSecond
from libs.web.server.asgi_routes import PlainRoute
from libs.web.server.http_middleware import HttpMiddleware
from libs.web.server.metrics import measured_loop, metrics_route
from tests.support.eventually import eventually


def a_client() -> httpx.AsyncClient:
    app = Starlette(routes=[metrics_route()])
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here")


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
        ("text/plain;version=1.0.0;escaping=allow-utf-8", "text/plain; version=0.0.4"),
        ("application/openmetrics-text", "application/openmetrics-text; version=1.0.0"),
        ("text/html, application/openmetrics-text; version=0.0.1", "application/openmetrics-text; version=1.0.0"),
        ("application/openmetrics-text; version=a.b", "application/openmetrics-text; version=1.0.0"),
        ("application/openmetrics-text; version=" + "1" * 5_000, "application/openmetrics-text; version=1.0.0"),
        ("application/openmetrics-text; escaping=a.b; version=9.9", "application/openmetrics-text; version=1.0.0"),
    ],
)
async def test_a_version_that_a_caller_names_does_not_matter(accept: str, media_type: str) -> None:
    async with a_client() as client:
        answer = await client.get("/metrics", headers={"Accept": accept})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(media_type)
        assert answer.text.endswith("# EOF\n") is media_type.startswith("application/openmetrics")


async def test_no_body_is_kept_for_each_version_that_callers_name() -> None:
    async with a_client() as client:
        gc.collect()
        before = sum(isinstance(held, OncePerSecond) for held in gc.get_objects())
        for version in range(50):
            accept = f"application/openmetrics-text; version={version}.0.0"
            assert (await client.get("/metrics", headers={"Accept": accept})).status_code == 200
        assert sum(isinstance(held, OncePerSecond) for held in gc.get_objects()) == before


async def test_a_long_turn_is_shown_by_the_template_of_its_request_s_route() -> None:
    async def busy(_: Request) -> Response:
        began = time.thread_time()
        while time.thread_time() - began < 0.5:
            pass
        return Response()

    front = HttpMiddleware(Starlette(routes=[route := PlainRoute("/contests/{key}/busy", busy)]), [route])
    transport = httpx.ASGITransport(front)
    async with measured_loop(), httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        assert (await client.get("/contests/c1/busy")).status_code == 200
        labels = {"route": "/contests/{key}/busy"}

        async def is_shown() -> bool:
            return (REGISTRY.get_sample_value("tally_loop_stall_seconds", labels) or 0) > 0.1

        await eventually(is_shown)
    assert REGISTRY.get_sample_value("tally_loop_stall_seconds", {"route": "none"}) is not None
