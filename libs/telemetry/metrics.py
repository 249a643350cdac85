"""Table of all metrics: name, kind, help, labels.

Metrics are global objects of the process. On a hot path, get the child of a labelled metric once (`.labels(...)`)
and keep it: counting then takes 0.5 µs, observing 1 µs.

There are two kinds, stated in the help text. Activity of a process is counted from its start: sum it over
processes, and use increases. The state of the views and the log is the same from every process, and survives
restarts: take the maximum over processes.

No label names a contest, a participant or a voter, so the number of series is bounded.
"""

from importlib.metadata import version
from platform import python_version
from typing import Final, Literal, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series per metric
REGISTRY: Final = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

QUICK_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""Buckets for one server call."""
REQUEST_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

OWN: Final = "By this process, since its start."
NOW: Final = "By this process, now."
OF_ALL: Final = "From the views and the log, the same from every process."


class Metric(NamedTuple):
    """Description of one metric; `whose` is one of the three constants above."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    whose: str
    labels: tuple[str, ...]

    @property
    def help(self) -> str:
        return f"{self.text} {self.whose}"


ROWS: Final[list[Metric]] = []
"""All metrics, in the order below."""


def _counter(name: str, text: str, *labels: str) -> Counter:
    ROWS.append(row := Metric(name, "counter", text, OWN, labels))
    return Counter(name, row.help, labels, registry=REGISTRY)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
    ROWS.append(row := Metric(name, "histogram", text, OWN, labels))
    return Histogram(name, row.help, labels, buckets=buckets, registry=REGISTRY)


def _own_gauge(name: str, text: str, *labels: str) -> Gauge:
    ROWS.append(row := Metric(name, "gauge", text, NOW, labels))
    return Gauge(name, row.help, labels, registry=REGISTRY)


def _gauge(name: str, text: str, *labels: str) -> Gauge:
    """Create a gauge, always with labels: a process that does not read the views then exports nothing, not 0."""
    ROWS.append(row := Metric(name, "gauge", text, OF_ALL, labels))
    return Gauge(name, row.help, labels, registry=REGISTRY)


# the process
BUILD_INFO: Final = _own_gauge(
    "tally_build_info", "1, with the versions of the running code and of Python.", "version", "python"
)
BUILD_INFO.labels(version("tallykeeper"), python_version()).set(1)

LOOP_STALL: Final = _own_gauge(
    "tally_loop_stall_seconds",
    "The longest turn of the event loop in the last minute, if above 0.1 s: its CPU time, while all other "
    "requests waited. By the template of its request's route ('none' if it is not known).",
    "route",
)

# votes
VOTES_ACCEPTED: Final = _counter(
    "tally_votes_accepted_total", "Votes accepted, without repeated requests.", "source"
)
VOTES_DEDUPLICATED: Final = _counter(
    "tally_votes_deduplicated_total", "Repeated votes, answered with the stored response to their id."
)
VOTES_REFUSED: Final = _counter(
    "tally_votes_refused_total", "Votes refused, by the problem's code: they are not in the log.", "code"
)
VOTES_UNKNOWN: Final = _counter(
    "tally_votes_unknown_total", "Votes answered 503 because it is unknown whether they are in the log."
)
RESERVE_SECONDS: Final = _histogram(
    "tally_reserve_duration_seconds", "One call that reserves up to 64 votes of a partition.", QUICK_S
)

# the log
APPEND_SECONDS: Final = _histogram(
    "tally_append_duration_seconds",
    "Time from sending a batch to Kafka until all in-sync replicas have it.",
    QUICK_S,
    "topic",
)
APPENDED_RECORDS: Final = _counter(
    "tally_append_records_total",
    "Records by the outcome of their append: acknowledged, refused (not in the log) or unknown.",
    "topic",
    "outcome",
)

# projections
FOLD_SECONDS: Final = _histogram(
    "tally_projection_duration_seconds", "Processing of one batch of records of a partition.", QUICK_S, "topic"
)
FOLDED_RECORDS: Final = _counter(
    "tally_projection_records_total", "Records processed into the live views.", "topic"
)
FOLD_FAILURES: Final = _counter(
    "tally_projection_failures_total",
    "Failed attempts to process records, or to read a view, which are retried.",
    "topic",
)
PROJECTOR_PART_UP: Final = _own_gauge(
    "tally_projector_part_up",
    "1 while a part of the projector runs: the projection of a topic, or a process manager; 0 while it failed.",
    "part",
)
PROJECTOR_PART_FAILURES: Final = _counter(
    "tally_projector_part_failures_total", "Failures and stops of a part of the projector.", "part"
)
PURCHASES_SET_ASIDE: Final = _own_gauge(
    "tally_purchases_set_aside",
    "Open purchases that are unreadable, or whose next step fails for another reason than an unavailable server.",
    "partition",
)
PURCHASES_UNREADABLE: Final = _counter(
    "tally_purchases_unreadable_total",
    "Requests for a purchase that could not be read.",
)
FENCES: Final = _counter("tally_fences_total", "Fences appended, each to resolve votes in doubt of a partition.")
GATE_SHUT_SECONDS: Final = _counter(
    "tally_gate_shut_seconds_total", "Time that gates were closed, summed over the process's partitions."
)

# HTTP
HTTP_REQUEST_SECONDS: Final = _histogram(
    "tally_http_request_duration_seconds",
    "Time until the response started, by the route's template ('none' without a route).",
    REQUEST_S,
    "method",
    "route",
    "status",
)
HTTP_REFUSALS: Final = _counter(
    "tally_http_refusals_total",
    "Refused for a bound: connections (too many), evicted (cut off to make room), headers (too large), deadline "
    "(headers or body too slow), pipelined (too many requests without reading), rate, streams (too many), or "
    "in_flight (too many votes, or bytes of batches).",
    "reason",
)
VOTES_IN_FLIGHT: Final = _own_gauge(
    "tally_votes_in_flight", "Votes that are being recorded; at TALLY_INGEST_MAX_IN_FLIGHT further ones get a 503."
)
STREAMS_OPEN: Final = _own_gauge(
    "tally_streams_open", "Clients of live results: counts (with a key), or results (public).", "kind"
)
STREAM_MESSAGES: Final = _counter("tally_stream_messages_total", "Messages sent to stream clients.")

# progress of the views
STANDING_UP: Final = _own_gauge(
    "tally_standing_up",
    "1 if the last reading of a topic and its views succeeded; while 0, their gauges are missing.",
    "topic",
)
STANDING_TIMESTAMP_SECONDS: Final = _own_gauge(
    "tally_standing_timestamp_seconds", "Start of the last successful reading, since 1970.", "topic"
)
LOG_END: Final = _gauge("tally_log_end", "Offset that the next record gets.", "topic", "partition")
VIEW_POSITION: Final = _gauge(
    "tally_view_position", "Offset of the first record that the live view has not processed.", "topic", "partition"
)
VIEW_LAG_RECORDS: Final = _gauge(
    "tally_view_lag_records", "Records of the log that the live view has not processed.", "topic", "partition"
)
VIEW_LAG_SECONDS: Final = _gauge(
    "tally_view_lag_seconds", "Age of the first record that the live view has not processed.", "topic", "partition"
)
VIEW_STALLED: Final = _gauge(
    "tally_view_stalled",
    "1 if the log has more records and the view has not advanced for long.",
    "topic",
    "partition",
)
QUARANTINED_RECORDS: Final = _gauge(
    "tally_quarantined_records", "Records that could not be processed and were not dropped.", "topic", "partition"
)
GENERATIONS: Final = _gauge(
    "tally_generations",
    "Generations of views other than the live ones, of all partitions.",
    "topic",
    "state",
)
REPLAY_REMAINING_RECORDS: Final = _gauge(
    "tally_replay_remaining_records", "Records until a replay has reached the live views.", "topic"
)
REPLAY_PROGRESS_RATIO: Final = _gauge(
    "tally_replay_progress_ratio",
    "Fraction of the log that a replay has processed; 1 while none is running.",
    "topic",
)

# the ledger
GATE_OPEN: Final = _gauge(
    "tally_gate_open", "1 if votes are accepted, 0 while votes in doubt are resolved.", "partition"
)
VOTES: Final = _gauge(
    "tally_votes",
    "Processed vote ids, by status: counted, removed, replaced, voided, overruled or late.",
    "partition",
    "status",
)
VOTES_PENDING: Final = _gauge(
    "tally_votes_pending", "Votes and removals that are reserved and not processed yet.", "partition"
)
VOTES_PENDING_OLDEST_SECONDS: Final = _gauge(
    "tally_votes_pending_oldest_seconds",
    "Age of the oldest pending vote or removal; 0 if there is none.",
    "partition",
)
VALKEY_CLOCK_OFF_SECONDS: Final = _own_gauge(
    "tally_valkey_clock_off_seconds",
    "Offset of the clock of a partition's Valkey from this process's; positive: ahead.",
    "partition",
)
CLOCK_AHEAD_SECONDS: Final = _gauge(
    "tally_clock_ahead_seconds",
    "Time that a partition's vote timestamps are ahead of its Valkey's clock, which stepped back.",
    "partition",
)
VOTES_FENCED: Final = _gauge(
    "tally_votes_fenced", "Votes and removals appended after a fence, which never count.", "partition"
)
FOLD_DUPLICATES: Final = _gauge("tally_votes_duplicate", "Duplicate records that were ignored.", "partition")
