"""OpenTelemetry traces from a request to the fold, passed on in log records as W3C traceparent headers.

If tracing is off, `Tracing` is None. A request that is not sampled creates no spans; its records have no header,
and their fold is not traced.
"""

import os
import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.metadata import version
from threading import Thread
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from libs.telemetry.environment_settings import TelemetrySettings

Headers = list[tuple[str, bytes]]
"""Headers of a log record; aiokafka accepts only a list."""
Attributes = dict[str, str | int]

TRACEPARENT: Final = "traceparent"
NO_HEADERS: Final[Headers] = []
MOST_LINKS: Final = 128
"""Maximum traces linked to the fold of a batch: OpenTelemetry's limit of a span's links."""
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
STOP_S: Final = 3.0
"""Seconds to send the last spans when a process ends."""

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_NOTHING: Final[AbstractContextManager[None]] = nullcontext()
_CHANCE: Final = random.Random()  # noqa: S311


class Tracing:
    """Creates the spans of one process, without ids of voters or votes, or error texts."""

    def __init__(self, tracer: Tracer, ratio: float) -> None:
        self._tracer = tracer
        self._ratio = ratio

    def sampled(self, headers: Iterable[tuple[bytes, bytes]]) -> Context | None:
        """Return the parent context of a request's span, None if not sampled. The caller's decision prevails."""
        for name, value in headers:
            if name == b"traceparent":
                found = _context(value)
                if found is not None:
                    return found if _of(found).trace_flags.sampled else None
        return Context() if _CHANCE.random() < self._ratio else None

    @contextmanager
    def request(self, parent: Context) -> Iterator[Span]:
        """Open the current span of a request; the caller names it when the route is known."""
        with self._current(self._tracer.start_span("HTTP", parent, SpanKind.SERVER)) as span:
            yield span

    @contextmanager
    def step(
        self, name: str, kind: SpanKind = SpanKind.INTERNAL, attributes: Attributes | None = None
    ) -> Iterator[None]:
        """Open a child span of the current one."""
        with self._current(self._tracer.start_span(name, kind=kind, attributes=attributes)):
            yield

    def headers(self) -> Headers:
        """Return the headers for a record appended now."""
        if not is_traced():
            return NO_HEADERS
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return [(name, value.encode()) for name, value in carrier.items()]

    @contextmanager
    def fold(self, topic: str, partition: int, records: int, traced: Mapping[int, bytes]) -> Iterator[None]:
        """Open a batch's span, linked to the traces of its records (`traced`: traceparents by offset), and add a
        span of the same duration to each of those traces."""
        contexts: dict[bytes, tuple[int, Context]] = {}
        for offset, parent in traced.items():
            if parent not in contexts and (context := _context(parent)) is not None:
                contexts[parent] = offset, context
            if len(contexts) == MOST_LINKS:
                break
        if not contexts:
            yield
            return
        place = _place(topic, "fold", "process") | {"messaging.destination.partition.id": str(partition)}
        batch = self._tracer.start_span(
            f"fold {topic}",
            Context(),
            SpanKind.CONSUMER,
            place | {"messaging.batch.message_count": records},
            [Link(_of(context)) for _, context in contexts.values()],
        )
        link = Link(batch.get_span_context())
        spans = [
            self._tracer.start_span(
                "fold", context, SpanKind.CONSUMER, place | {"messaging.kafka.offset": offset}, [link]
            )
            for offset, context in contexts.values()
        ]
        with self._current(batch):
            try:
                yield
            except BaseException as error:
                for span in spans:
                    _fail(span, error)
                raise
            finally:
                for span in spans:
                    span.end()

    @contextmanager
    def _current(self, span: Span) -> Iterator[Span]:
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield span
        except BaseException as error:
            _fail(span, error)
            raise
        finally:
            span.end()


def step(tracing: Tracing | None, name: str) -> AbstractContextManager[None]:
    """Open a child span of the current one, if any."""
    return _NOTHING if tracing is None or not is_traced() else tracing.step(name)


def appending(tracing: Tracing | None, topic: str, records: int) -> AbstractContextManager[None]:
    """Open a `step` for an append; the records' headers refer to it."""
    if tracing is None or not is_traced():
        return _NOTHING
    attributes = _place(topic, "append", "send") | {"messaging.batch.message_count": records}
    return tracing.step(f"append {topic}", SpanKind.PRODUCER, attributes)


@contextmanager
def open_tracing(settings: TelemetrySettings, service: str) -> Iterator[Tracing | None]:
    """Send spans in the background while the context is open; undeliverable ones are dropped.

    Yields None if tracing is off. Exits with instructions if the exporter is not installed. OpenTelemetry's own
    variables hold where ours say nothing: the exporter's address, the names, the sampler, and OTEL_SDK_DISABLED.
    """
    endpoint = settings.traces_url.get_secret_value() or None
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or not (endpoint or any(map(_is_set, ENDPOINTS))):
        yield None
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        raise SystemExit(
            "An address for traces is set, but the trace exporter is not installed: "
            "install tallykeeper[traces] (`uv sync --extra traces`), or unset it."
        ) from None
    names = {"service.name": f"tallykeeper-{service}", "service.version": version("tallykeeper")}
    resource = Resource.create({**names, **OTELResourceDetector().detect().attributes})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    try:
        is_sampled_there = _is_set("OTEL_TRACES_SAMPLER") and "traces_ratio" not in settings.model_fields_set
        yield Tracing(provider.get_tracer("tallykeeper"), 1.0 if is_sampled_there else settings.traces_ratio)
    finally:
        # an unavailable collector would delay the exit by half a minute
        stopping = Thread(target=provider.shutdown, daemon=True)
        stopping.start()
        stopping.join(STOP_S)


def _is_set(variable: str) -> bool:
    return bool(os.environ.get(variable))


def is_traced() -> bool:
    """Return whether the current span is recorded."""
    return trace.get_current_span().is_recording()


def _context(traceparent: bytes) -> Context | None:
    """Return the context of a traceparent; None if it is invalid."""
    context = _PROPAGATOR.extract({TRACEPARENT: traceparent.decode("latin-1")})
    return context if _of(context).is_valid else None


def _of(context: Context) -> SpanContext:
    return trace.get_current_span(context).get_span_context()


def _place(topic: str, name: str, kind: str) -> Attributes:
    """Return attributes of OpenTelemetry's semantic conventions for messaging."""
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": topic,
    }


def _fail(span: Span, error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(StatusCode.ERROR)
