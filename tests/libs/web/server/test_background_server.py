"""`/metrics` beside a process's own work."""

import asyncio
import signal
import socket

import pytest
from starlette.applications import Starlette

from libs.local_stack.ports import free_ports
from libs.web.server.background_server import serve_in_background
from libs.web.server.metrics import metrics_route
from libs.web.settings import HostSettings
from tests.support.clients.http_clients import http_client


async def test_it_is_served_while_the_work_goes_on_and_the_signals_stay_with_the_process() -> None:
    [port], handler = free_ports(1), signal.getsignal(signal.SIGTERM)
    looked = asyncio.Event()

    async def look() -> None:
        looked.set()

    async with (
        serve_in_background(Starlette(routes=[metrics_route([look])]), HostSettings(), "127.0.0.1", port),
        http_client() as client,
    ):
        answer = await client.get(f"http://127.0.0.1:{port}/metrics")
        assert answer.status_code == 200
        assert "process_cpu_seconds_total" in answer.text
        assert looked.is_set()
        assert signal.getsignal(signal.SIGTERM) is handler
    with socket.create_server(("127.0.0.1", port)):
        """It listens no more."""


async def test_where_nobody_can_listen_the_work_goes_on_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with serve_in_background(Starlette(), HostSettings(), "127.0.0.1", port):
            worked = True
    assert worked
    assert f"port {port}" in caplog.text
