"""`/metrics` has two formats, whatever a caller accepts."""

import gc

import httpx
import pytest
from starlette.applications import Starlette

from libs.web.responses import OncePerSecond
from libs.web.server.metrics import metrics_route


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
