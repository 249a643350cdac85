"""Traces (OpenTelemetry) from the request through the log's headers to the fold, as W3C's traceparent names them.

Off, `Tracing` is None, which costs its users a look at that. A request that is not sampled has no span at all, so
nothing in it makes one; its records carry no header, and nothing is told of their fold.
"""

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

from libs.telemetry.settings import TelemetrySettings

Headers = list[tuple[str, bytes]]
"""Of a record of the log; aiokafka takes no other sequence."""
Attributes = dict[str, str | int]

TRACEPARENT: Final = "traceparent"
NO_HEADERS: Final[Headers] = []
MOST_LINKS: Final = 128
"""Traces that the fold of one batch is told to; OpenTelemetry keeps no more links of a span."""
STOP_S: Final = 3.0
"""How long the last spans may take to be sent when a process ends."""

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_NOTHING: Final[AbstractContextManager[None]] = nullcontext()
_CHANCE: Final = random.Random()  # noqa: S311


class Tracing:
    """The spans of one process. They hold no ids of voters or votes, and no texts of errors."""

    def __init__(self, tracer: Tracer, ratio: float) -> None:
        self._tracer = tracer
        self._ratio = ratio

    def sampled(self, headers: Iterable[tuple[bytes, bytes]]) -> Context | None:
        """What a request's span goes below, None where it is not traced. The caller's own decision holds."""
        for name, value in headers:
            if name == b"traceparent":
                found = _context(value)
                if found is not None:
                    return found if _of(found).trace_flags.sampled else None
        return Context() if _CHANCE.random() < self._ratio else None

    @contextmanager
    def request(self, parent: Context) -> Iterator[Span]:
        """The span of a request, current meanwhile; its user names it when the route is known."""
        with self._current(self._tracer.start_span("HTTP", parent, SpanKind.SERVER)) as span:
            yield span

    @contextmanager
    def step(
        self, name: str, kind: SpanKind = SpanKind.INTERNAL, attributes: Attributes | None = None
    ) -> Iterator[None]:
        """A part of what is traced now."""
        with self._current(self._tracer.start_span(name, kind=kind, attributes=attributes)):
            yield

    def headers(self) -> Headers:
        """What a record carries that is appended now."""
        if not _traced():
            return NO_HEADERS
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return [(name, value.encode()) for name, value in carrier.items()]

    @contextmanager
    def fold(self, topic: str, partition: int, records: int, traced: Mapping[int, bytes]) -> Iterator[None]:
        """A batch's span, linked to the traces of its records at the offsets of `traced` (with their traceparent),
        and in each of those traces a span of the same time."""
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
    """A part of what is traced now, if anything is."""
    return _NOTHING if tracing is None or not _traced() else tracing.step(name)


def appending(tracing: Tracing | None, topic: str, records: int) -> AbstractContextManager[None]:
    """A `step` that appends to the log; the records' headers name it."""
    if tracing is None or not _traced():
        return _NOTHING
    attributes = _place(topic, "append", "send") | {"messaging.batch.message_count": records}
    return tracing.step(f"append {topic}", SpanKind.PRODUCER, attributes)


@contextmanager
def open_tracing(settings: TelemetrySettings, service: str) -> Iterator[Tracing | None]:
    """Sends spans in the background while the context is open; those that cannot be sent are dropped.

    None where no traces are wanted. Exits, saying what to do, where the exporter is not installed.
    """
    if not (endpoint := settings.traces_url.get_secret_value()):
        yield None
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        raise SystemExit(
            "TALLY_TRACES_URL is set, but what sends traces is not installed: "
            "install tallykeeper[traces] (`uv sync --extra traces`), or unset it."
        ) from None
    names = {"service.name": f"tallykeeper-{service}", "service.version": version("tallykeeper")}
    provider = TracerProvider(resource=Resource.create(names), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    try:
        yield Tracing(provider.get_tracer("tallykeeper"), settings.traces_ratio)
    finally:
        # a collector that is away would hold up the end for half a minute
        stopping = Thread(target=provider.shutdown, daemon=True)
        stopping.start()
        stopping.join(STOP_S)


def _traced() -> bool:
    return trace.get_current_span().is_recording()


def _context(traceparent: bytes) -> Context | None:
    """What a traceparent names; None where it is none."""
    context = _PROPAGATOR.extract({TRACEPARENT: traceparent.decode("latin-1")})
    return context if _of(context).is_valid else None


def _of(context: Context) -> SpanContext:
    return trace.get_current_span(context).get_span_context()


def _place(topic: str, name: str, kind: str) -> Attributes:
    """As OpenTelemetry's conventions for messaging have it."""
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": topic,
    }


def _fail(span: Span, error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(StatusCode.ERROR)
