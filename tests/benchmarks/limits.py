"""Reasons why goals are missed: the profile's largest parts, and what was tried.

A row explains the goals of a path whose figure or party contains a text; the first that fits counts. The README
shows it only where the goal is missed.
"""

from typing import Final, NamedTuple


class Limit(NamedTuple):
    path: str
    part: str
    reason: str


LIMITS: Final = (
    Limit(
        "votes",
        "1 client,",
        "With one client nothing shares a batch: each vote wakes the gateway, Valkey twice, the broker and "
        "the projector for itself alone, where the peers wake one server. Compare the CPU time with that of"
        " 256 clients.",
    ),
    Limit(
        "votes",
        "address limit",
        "The address counters are a further call of Valkey for each vote, made together for the votes of a batch.",
    ),
    Limit(
        "votes",
        "CPU of",
        "The largest parts are the gateway and Valkey. A vote is one HTTP request, a reservation, an "
        "append, a confirmation and a fold. Tried, each in the figures above: routes without FastAPI (330 →"
        " 115 µs), a client of Valkey that sends waiting calls together (10 → 2.1 µs a call), reservations "
        "and confirmations in batches, appends without a task each. What is left in the gateway is HTTP, "
        "JSON, HMACs, the codec and the decisions.",
    ),
    Limit("votes", "bare", "The ceiling does no work."),
    Limit(
        "votes",
        "p99",
        "Votes of a batch wait for each other's reservation, append and confirmation: three round trips, "
        "where the peers have one.",
    ),
    Limit(
        "votes",
        "",
        "The peers do one of the parts: a transaction without a log, or an append without counts, limits "
        "and vote ids. Tallykeeper does both, and folds the log: see the CPU time by process. The gateway "
        "takes less than the peers' handlers do with 256 clients; Valkey and the projector come on top.",
    ),
    Limit(
        "batch",
        "",
        "Shares of the gateway's samples: 57 % reserve and decide (27 % pack calls of Valkey and read their"
        " replies, 15 % decide and build events), 10 % take the request and its JSON, 10 % encode events, 6"
        " % compute receipts (HMAC), 9 % append and acknowledge. The ceiling has only the last and the "
        "encoding. Tried: one reservation call for all items of a partition, replies unpacked together, "
        "appends by callback instead of a task.",
    ),
    Limit(
        "fold",
        "pipelined",
        "Plain commands know no repeated vote ids, limits, timeline, removals or receipts, which are the "
        "difference.",
    ),
    Limit(
        "fold",
        "",
        "By CPU time, Valkey's function takes the largest part, then decoding of events, which the ceiling "
        "has, too. A rate is bounded by one core for each process: see the CPU time.",
    ),
    Limit(
        "replay",
        "",
        "Both run the same fold on the same machine; the rate is that of the fold alone, without "
        "verification and swap. In a small log its start is a part of it. Not profiled at full size.",
    ),
    Limit(
        "tenfold",
        "",
        "The fold does the same work for each vote; what grows is the memory that Valkey's tables are "
        "copied to when they double.",
    ),
    Limit(
        "counts",
        "FastAPI",
        "Three quarters of the gateway's samples are outside of this project's code: the event loop, the "
        "HTTP parser and system calls, the same as for the peer. Of few participants the peer's HGETALL is "
        "cheap. Tried: answers rendered once for all readers, authorization without I/O, a route before "
        "FastAPI's.",
    ),
    Limit(
        "counts",
        "",
        "A quarter of the gateway's samples is this project's code: authorization, the choice of the "
        "answer, and its headers (ETag, position, cache control), which the ceiling has not. The rest is "
        "the event loop, the HTTP parser and system calls. Tried: answers rendered once for all readers, a "
        "route before FastAPI's.",
    ),
    Limit(
        "streams",
        "p99",
        "A round of the streams begins at most ten times a second, so a count waits 50 ms in the mean; then"
        " all subscribers are written to in turn. The delay includes the vote itself, its fold, and the "
        "reading of the clients, which share the machine.",
    ),
    Limit(
        "streams",
        "",
        "An event to a subscriber takes 13.4 µs, measured without votes, against 10.0 of a bare write of "
        "the same bytes: ASGI's message, chunked encoding and the buffer's limit. The rest is the votes, "
        "and the views that are read for them. Tried: one rendered event for all, no task for a subscriber "
        "whose buffer takes it.",
    ),
    Limit(
        "memory",
        "3 votes",
        "A vote's record is 54 bytes (vote id, content, time, offset, choice, allowance), so three take "
        "162. The voter's name takes 22, the sums for limits about 25; the rest is the entry of Valkey's "
        "table, of which 17 bytes are buckets: at this number of voters the tables are half full. Records "
        "were already packed to bytes; a shorter one would lose an answer to a repeated vote.",
    ),
    Limit(
        "memory",
        "50 votes",
        "Eight records lie with the voter. The other 42 are entries of their own, found by vote id in one "
        "look-up however many there are: 34 bytes of name, 66 of record and link, about 23 of table. The "
        "records alone, 54 bytes each, exceed the goal. Considered: eight records in an entry would save "
        "2,600 bytes, and make each look-up of a voter's older vote read all of the voter's entries.",
    ),
    Limit(
        "memory",
        "",
        "The rest beside the ledger is of the contest, not of voters: counts, names and timeline of 100 "
        "participants in 16 partitions, divided by the voters of the benchmark.",
    ),
    Limit(
        "growth",
        "contests",
        "A batch of votes for a thousand contests reads and writes the rows of as many contests, where one "
        "contest's are read once for the whole batch.",
    ),
    Limit(
        "growth",
        "participants",
        "A batch of votes for 10,000 participants reads and writes as many rows and adds each to its sorted"
        " set of changes; of ten participants each row is written once a batch.",
    ),
    Limit(
        "growth",
        "renewals",
        "Each vote of a voter opens an allowance period: its sums replace those of the period before last, "
        "and records beyond eight become entries of their own.",
    ),
    Limit(
        "growth",
        "",
        "Tables and sorted sets of Valkey grow: more misses of the processor's caches, and copying when "
        "they double.",
    ),
    Limit(
        "visible",
        "",
        "A contest's counts are read again after 20 times as long as the last read took, and after 10 ms at"
        " least, so that all its readers together take 5 % of a process. A poll waits for half of that on "
        "average, and for the vote and its fold, as with `min_position`, which is not bound by it..",
    ),
    Limit(
        "start",
        "",
        "CPU time of a start, on a busy machine, 18.7 s: command 5.3 (3.2 of it imports), Kafka 6.1, "
        "gateway 4.3, projector 2.8. They follow each other, since the services need the topics, but for "
        "the last two.",
    ),
)
NOT_PROFILED: Final = "Not profiled yet."


def limit_of(path: str, figure: str, against: str) -> str:
    name = f"{figure} against {against}"
    return next((limit.reason for limit in LIMITS if limit.path == path and limit.part in name), NOT_PROFILED)
