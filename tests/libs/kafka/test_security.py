"""TLS connections to Kafka, against a server that ends them as Kafka does."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop

from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from tests.support.servers.secured import Certificates

DEADLINE_S = 10
"""Far below the 30 s for which an event loop waits for a close_notify."""


@contextmanager
def a_server_without_close_notify(certificates: Certificates) -> Iterator[int]:
    """A port that takes one connection over TLS, answers nothing on it, and leaves it open."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server)
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as thread:
        listening.settimeout(DEADLINE_S)
        taken = thread.submit(lambda: context.wrap_socket(listening.accept()[0], server_side=True))
        try:
            yield listening.getsockname()[1]
        finally:
            taken.result(DEADLINE_S).close()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_closes_though_the_server_sends_no_close_notify(
    new_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    certificates = Certificates(tmp_path)
    settings = KafkaSettings(
        kafka_bootstrap_servers="127.0.0.1:9", kafka_security_protocol="SSL", kafka_ca_file=certificates.authority
    )

    async def open_and_close(port: int) -> None:
        tls = connection(settings)["ssl_context"]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        async with asyncio.timeout(DEADLINE_S):
            writer.close()
            await writer.wait_closed()

    with a_server_without_close_notify(certificates) as port, asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(open_and_close(port))
