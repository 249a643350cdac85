"""The target of traces, and failures to send them."""

import time
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from libs.telemetry.environment_settings import TelemetrySettings
from libs.telemetry.tracing import STOP_S, Tracing, appending, open_tracing, step
from tests.support.servers.trace_collector import open_collector


def parents(count: int) -> list[bytes]:
    return [b"00-%032x-%016x-01" % (number, number) for number in range(1, count + 1)]


class Kept:
    """A `Tracing` and the spans that it has made."""

    def __init__(self, ratio: float = 1.0) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(provider.get_tracer("tests"), ratio)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()


def test_outside_of_a_sampled_request_there_are_no_spans_and_no_headers() -> None:
    kept = Kept()
    with step(kept.tracing, "reserve"), appending(kept.tracing, "votes", 1):
        assert kept.tracing.headers() == []
    assert not kept.spans


@pytest.mark.parametrize(("ratio", "least", "most"), [(0.0, 0, 0), (0.5, 400, 600), (1.0, 1_000, 1_000)])
def test_the_ratio_is_that_of_the_requests_whose_callers_say_nothing(ratio: float, least: int, most: int) -> None:
    tracing = Kept(ratio).tracing
    assert least <= sum(tracing.sampled([(b"host", b"h")]) is not None for _ in range(1_000)) <= most
    parent = parents(1)[0]
    assert tracing.sampled([(b"traceparent", parent)]) is not None
    assert tracing.sampled([(b"traceparent", parent[:-1] + b"0")]) is None


def test_a_failed_fold_is_marked_in_every_trace_and_its_error_s_text_in_none() -> None:
    kept = Kept()
    first, second = parents(2)
    with (
        pytest.raises(ValueError, match="alice"),
        kept.tracing.fold("votes", 3, 10, {7: first, 8: second, 9: second}),
    ):
        raise ValueError("alice")
    assert sorted(span.name for span in kept.spans) == ["fold", "fold", "fold votes"]
    assert all(not span.status.is_ok and span.attributes["error.type"] == "ValueError" for span in kept.spans)  # type: ignore[index]
    assert not any("alice" in span.to_json() for span in kept.spans)


def trace_a_request(tracing: Tracing | None) -> None:
    assert tracing is not None
    parent = tracing.sampled([])
    assert parent is not None
    with tracing.request(parent):
        pass


def test_the_last_spans_are_sent_before_the_end() -> None:
    with open_collector() as collector:
        with open_tracing(TelemetrySettings(traces_url=collector.url, traces_ratio=1), "gateway") as tracing:
            trace_a_request(tracing)
        [span] = collector.spans
    assert (span.service, span.kind) == ("tallykeeper-gateway", "server")


def test_opentelemetry_s_own_variables_hold_where_ours_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.removesuffix("/v1/traces"))
        monkeypatch.setenv("OTEL_SERVICE_NAME", "votes-of-the-show")
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_on")
        with open_tracing(TelemetrySettings(), "gateway") as tracing:
            trace_a_request(tracing)
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        with open_tracing(TelemetrySettings(traces_url=collector.url), "gateway") as tracing:
            assert tracing is None
        [span] = collector.spans
    assert (span.service, span.kind) == ("votes-of-the-show", "server")


def test_a_collector_that_is_away_holds_nothing_up() -> None:
    began = time.monotonic()
    with open_tracing(TelemetrySettings(traces_url="http://127.0.0.1:9/v1/traces"), "gateway") as tracing:
        assert tracing is not None
        with tracing.fold("votes", 0, 1, {0: parents(1)[0]}):
            pass
    assert time.monotonic() - began < STOP_S + 5
