"""Every metric: name, kind, help, labels. What is measured is counted here, wherever that happens.

These objects are the process's own, as its memory is, so nobody passes them down. On a hot path the child of a
labelled one is asked for once (`.labels(...)`), and kept: counting costs half a microsecond then, observing one.

Two kinds, and the help text says which. What a process did, it counts from its start on: add that up over
processes, and look at increases. What the views and the log say is the same from whoever is asked, and survives
restarts: take the maximum over processes.

No label ever names a contest, a participant or a voter: how many series there are is known beforehand.
"""

from typing import Final, Literal, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each, which says when it began
REGISTRY: Final = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

QUICK_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
"""For one call of a server."""
REQUEST_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

OWN: Final = "By this process, since its start."
NOW: Final = "By this process, now."
OF_ALL: Final = "By the views and the log: every process says the same."


class Row(NamedTuple):
    """What is said of a metric; `whose` is one of the three above."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    whose: str
    labels: tuple[str, ...]

    @property
    def help(self) -> str:
        return f"{self.text} {self.whose}"


ROWS: Final[list[Row]] = []
"""All of them, in the order below."""


def _counter(name: str, text: str, *labels: str) -> Counter:
    ROWS.append(row := Row(name, "counter", text, OWN, labels))
    return Counter(name, row.help, labels, registry=REGISTRY)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
    ROWS.append(row := Row(name, "histogram", text, OWN, labels))
    return Histogram(name, row.help, labels, buckets=buckets, registry=REGISTRY)


def _own_gauge(name: str, text: str, *labels: str) -> Gauge:
    ROWS.append(row := Row(name, "gauge", text, NOW, labels))
    return Gauge(name, row.help, labels, registry=REGISTRY)


def _gauge(name: str, text: str, *labels: str) -> Gauge:
    """Labelled always: so a process that does not look at the views says nothing, instead of 0."""
    ROWS.append(row := Row(name, "gauge", text, OF_ALL, labels))
    return Gauge(name, row.help, labels, registry=REGISTRY)


# votes, as they were answered
VOTES_ACCEPTED: Final = _counter(
    "tally_votes_accepted_total", "Votes answered as accepted, each at its first answer.", "source"
)
VOTES_DEDUPLICATED: Final = _counter(
    "tally_votes_deduplicated_total", "Votes whose id was known, and whose first answer was given again."
)
VOTES_REFUSED: Final = _counter(
    "tally_votes_refused_total", "Votes refused, by the problem's code: they are not in the log.", "code"
)
VOTES_UNKNOWN: Final = _counter(
    "tally_votes_unknown_total", "Votes answered 503 because nobody could tell whether they are in the log."
)
RESERVE_SECONDS: Final = _histogram(
    "tally_reserve_seconds", "One call that reserves up to 64 votes of a partition.", QUICK_S
)

# the log
APPEND_SECONDS: Final = _histogram(
    "tally_append_seconds", "From handing a batch to Kafka until all in-sync replicas have it.", QUICK_S, "topic"
)
APPENDED_RECORDS: Final = _counter(
    "tally_append_records_total",
    "Records by how appending them ended: acknowledged, refused (not in the log) or unknown.",
    "topic",
    "outcome",
)

# the fold
FOLD_SECONDS: Final = _histogram("tally_fold_seconds", "One fold of records of a partition.", QUICK_S, "topic")
FOLDED_RECORDS: Final = _counter("tally_fold_records_total", "Records folded into the live views.", "topic")
FOLD_FAILURES: Final = _counter(
    "tally_fold_failures_total", "Attempts to fold, or to look at a view, that failed and are repeated.", "topic"
)
PROJECTOR_PART_UP: Final = _own_gauge(
    "tally_projector_part_up",
    "1 while a part of the projector runs: the fold of a topic, or a process manager; 0 while it failed.",
    "part",
)
PROJECTOR_PART_FAILURES: Final = _counter(
    "tally_projector_part_failures_total", "How often a part of the projector failed or stopped.", "part"
)
PURCHASES_SET_ASIDE: Final = _own_gauge(
    "tally_purchases_set_aside",
    "Open purchases that are unreadable, or whose next step fails otherwise than by a server that is away.",
    "partition",
)
PURCHASES_UNREADABLE: Final = _counter(
    "tally_purchases_unreadable_total",
    "How often a purchase was asked for and could not be read.",
)
FENCES: Final = _counter("tally_fences_total", "Fences appended, each to end doubt about a partition's votes.")
GATE_SHUT_SECONDS: Final = _counter(
    "tally_gate_shut_seconds_total", "Time that gates were shut, added up over the partitions looked after."
)

# HTTP
HTTP_REQUEST_SECONDS: Final = _histogram(
    "tally_http_request_seconds",
    "Until the answer began, by the route's template ('none' where no route is there).",
    REQUEST_S,
    "method",
    "route",
    "status",
)
HTTP_REFUSALS: Final = _counter(
    "tally_http_refusals_total",
    "Refused for a bound: connections (too many), evicted (cut off to make room), headers (too large), deadline "
    "(headers or body too slow), rate, streams (too many), or in_flight (too many votes, or bytes of batches).",
    "reason",
)
STREAMS_OPEN: Final = _own_gauge(
    "tally_streams_open", "Listeners to live results: counts (with a key), or results (public).", "kind"
)
STREAM_MESSAGES: Final = _counter(
    "tally_stream_messages_total", "What listeners were told: one for each that was told something."
)

# how far the views are
STANDING_UP: Final = _own_gauge(
    "tally_standing_up",
    "Whether the last look at a topic and its views succeeded; while it is 0, what they say is missing.",
    "topic",
)
STANDING_TIMESTAMP_SECONDS: Final = _own_gauge(
    "tally_standing_timestamp_seconds", "When the last look that succeeded began, since 1970.", "topic"
)
LOG_END: Final = _gauge("tally_log_end", "Offset that the next record gets.", "topic", "partition")
VIEW_POSITION: Final = _gauge(
    "tally_view_position", "Offset of the first record that the live view has not folded.", "topic", "partition"
)
VIEW_LAG_RECORDS: Final = _gauge(
    "tally_view_lag_records", "Records that the log has and the live view has not.", "topic", "partition"
)
VIEW_LAG_SECONDS: Final = _gauge(
    "tally_view_lag_seconds", "Age of the first record that the live view has not.", "topic", "partition"
)
VIEW_STALLED: Final = _gauge(
    "tally_view_stalled", "1 where the log has more and the view has not moved for long.", "topic", "partition"
)
QUARANTINED_RECORDS: Final = _gauge(
    "tally_quarantined_records", "Records that could not be folded and were not dropped.", "topic", "partition"
)
GENERATIONS: Final = _gauge(
    "tally_generations",
    "Generations of views beside the live ones, of all partitions.",
    "topic",
    "state",
)
REPLAY_REMAINING_RECORDS: Final = _gauge(
    "tally_replay_remaining_records", "Records until a replay has come as far as the live views.", "topic"
)
REPLAY_PROGRESS_RATIO: Final = _gauge(
    "tally_replay_progress_ratio", "How much of the log a replay has folded; 1 while none is folding.", "topic"
)

# the ledger
GATE_OPEN: Final = _gauge("tally_gate_open", "1 where votes are taken, 0 where doubt is being ended.", "partition")
VOTES: Final = _gauge(
    "tally_votes",
    "Vote ids in the fold, by what became of them: counted, removed, replaced, voided, overruled or late.",
    "partition",
    "status",
)
VOTES_PENDING: Final = _gauge(
    "tally_votes_pending", "Votes and removals that are reserved and not folded yet.", "partition"
)
VOTES_PENDING_OLDEST_SECONDS: Final = _gauge(
    "tally_votes_pending_oldest_seconds", "Age of the oldest of those; 0 where there is none.", "partition"
)
VALKEY_CLOCK_OFF_SECONDS: Final = _own_gauge(
    "tally_valkey_clock_off_seconds",
    "How far the clock of a partition's Valkey is ahead of this process's; less than 0: behind.",
    "partition",
)
CLOCK_AHEAD_SECONDS: Final = _gauge(
    "tally_clock_ahead_seconds",
    "How far the moments that a partition stamps votes with are ahead of its Valkey's clock, which stepped back.",
    "partition",
)
VOTES_FENCED: Final = _gauge(
    "tally_votes_fenced", "Votes and removals that came behind a fence, and so never counted.", "partition"
)
FOLD_DUPLICATES: Final = _gauge(
    "tally_fold_duplicates", "Records that the fold passed over because it had their like.", "partition"
)
