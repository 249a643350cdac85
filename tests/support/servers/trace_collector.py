"""A trace collector: a small HTTP server that accepts OTLP and stores the spans."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SentSpan


@dataclass(frozen=True)
class Span:
    """A received span, with ids in hexadecimal. `links` are the ids of traces and spans."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    kind: str
    failed: bool
    attributes: dict[str, str]
    links: list[tuple[str, str]]
    began: int
    ended: int


class Collector:
    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[Span] = []

    def of_trace(self, trace: str) -> dict[str, Span]:
        """Return the spans of one trace by name."""
        return {span.name: span for span in self.spans if span.trace == trace}

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [_span(names["service.name"], span) for span in scope.spans]


@contextmanager
def open_collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.take(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}/v1/traces")
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()


def _span(service: str, sent: SentSpan) -> Span:
    return Span(
        service,
        sent.name,
        sent.trace_id.hex(),
        sent.span_id.hex(),
        sent.parent_span_id.hex(),
        SentSpan.SpanKind.Name(sent.kind).removeprefix("SPAN_KIND_").lower(),
        sent.status.code == 2,
        {each.key: each.value.string_value or str(each.value.int_value) for each in sent.attributes},
        [(link.trace_id.hex(), link.span_id.hex()) for link in sent.links],
        sent.start_time_unix_nano,
        sent.end_time_unix_nano,
    )
