"""A stopping process is first not ready, then closes its port; each deadline of its stop lies within the next."""

import inspect
from pathlib import Path

import yaml

from libs.kafka.writer import LogWriter
from libs.local_stack.service_process import PARTS
from libs.web.server.http_service import HttpModule, build_app
from libs.web.settings import CLOSE_S, DRAIN_S, HttpSettings
from tests.support.eventually import eventually
from tests.support.http_clients import http_client
from tests.support.serving import served

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


def test_each_deadline_of_a_stop_lies_within_the_next() -> None:
    writers = 2  # of ingestion and of the catalogue, in one gateway
    record_s = inspect.signature(LogWriter.stop).parameters["timeout_s"].default
    assert writers * record_s <= CLOSE_S
    [gateway] = [part for part in PARTS if part.name == "gateway"]
    assert gateway.drain_s > DRAIN_S + CLOSE_S
    assert HttpSettings.model_fields["drain_delay_s"].default + DRAIN_S + CLOSE_S < KILLED_AFTER_S
    services = yaml.safe_load(Path("deploy/compose.yaml").read_text())["services"]
    assert services["gateway"]["stop_grace_period"] == f"{KILLED_AFTER_S}s"
