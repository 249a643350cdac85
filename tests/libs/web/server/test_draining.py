"""A stopping process is first not ready, then closes its port; each deadline of its stop lies within the next."""

import asyncio
import inspect
from pathlib import Path

import pytest
import yaml

from libs.kafka.writer import LogWriter
from libs.local_stack.service_process import PARTS
from libs.web.server import http_service
from libs.web.server.http_service import HttpModule, build_app
from libs.web.settings import CLOSE_S, DRAIN_S, HttpSettings
from tests.support.clients.http_clients import http_client
from tests.support.eventually import eventually
from tests.support.servers.serving import served

KILLED_AFTER_S = 30
"""Kubernetes' terminationGracePeriodSeconds by default, and `stop_grace_period` in `deploy/compose.yaml`."""


async def test_a_stopping_process_serves_without_being_ready_until_it_is_forced() -> None:
    app = build_app("a service", [HttpModule()])
    async with served(app, drain_delay_s=3_600) as running, http_client(base_url=running.url) as client:
        assert (await client.get("/readyz")).status_code == 200
        running.server.should_exit = True

        async def is_unready() -> bool:
            return (await client.get("/readyz")).status_code == 503

        await eventually(is_unready)
        async with http_client(base_url=running.url) as another:
            assert (await another.get("/livez")).status_code == 200
        running.server.force_exit = True


async def test_who_is_still_waiting_at_the_end_of_the_drain_is_told_to_send_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_service, "DRAIN_S", 0.2)
    app, began = build_app("a service", [HttpModule()]), asyncio.Event()

    @app.post("/slow")
    async def slow() -> None:
        began.set()
        await asyncio.Event().wait()

    async with http_client() as client:
        async with served(app) as running:
            sent = asyncio.create_task(client.post(f"{running.url}/slow"))
            await began.wait()
        answer = await sent
    assert (answer.status_code, answer.json()["code"]) == (503, "log_unavailable")
    assert answer.headers["retry-after"] == "1"


def test_each_deadline_of_a_stop_lies_within_the_next() -> None:
    writers = 2  # of ingestion and of the catalogue, in one gateway
    record_s = inspect.signature(LogWriter.stop).parameters["timeout_s"].default
    assert writers * record_s <= CLOSE_S
    [gateway] = [part for part in PARTS if part.name == "gateway"]
    assert gateway.drain_s > DRAIN_S + CLOSE_S
    assert HttpSettings.model_fields["drain_delay_s"].default + DRAIN_S + CLOSE_S < KILLED_AFTER_S
    services = yaml.safe_load(Path("deploy/compose.yaml").read_text())["services"]
    assert services["gateway"]["stop_grace_period"] == f"{KILLED_AFTER_S}s"
