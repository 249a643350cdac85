"""Serves a projector's metrics with values that a test sets."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Gauge, start_http_server


@contextmanager
def projector_metrics() -> Iterator[tuple[str, Gauge]]:
    """Yield the metrics' URL, and the gauge of the tasks by `part`."""
    up = Gauge("tally_projector_part_up", "", ["part"], registry=(registry := CollectorRegistry()))
    server, thread = start_http_server(0, "127.0.0.1", registry)
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics", up
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
