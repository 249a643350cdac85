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
        "A server that has all keys decides the limit and the reservation by one call. What is left is "
        "two commands of Valkey that read and write the address's counter and one that sets its expiry, a"
        " key and a HMAC for each vote. Tried: a call of its own before the reservation (0.66 × at 64 "
        "clients, 0.87 × at 256), a further round trip; a cluster still needs it.",
    ),
    Limit(
        "votes",
        "CPU of",
        "No part of the gateway is large. Shares of its Python at 64 clients, without system calls and "
        "the producer's sender: 24 % HTTP parser, limits of connections and routing, 21 % the vote's "
        "protocol and its driver, 11 % response and its JSON, 9 % packing and reading calls of Valkey, 7 "
        "% queue and batches of the log, 6 % the command with its hash, 5 % each key and rate limit, "
        "event and its JSON, HMACs, 4 % the request's JSON. Tried, in the figures: HMACs by copies of "
        "keyed objects (1.46 → 0.84 µs, three a vote), no cyclic garbage (a seventh of a batch's samples), "
        "no timer for each idle connection, calls that take all requests of a partition before the next "
        "ones (Valkey's reservation with 4 votes in each of 16 partitions 24 µs a vote, 16 in each of 4 "
        "15 µs), votes that start in groups (0.82 to 0.91 of all servers' CPU time at 64 clients, in "
        "turns). Tried without gain: one call of all partitions (2 % of Valkey), another setting of the "
        "allocator (22 % more), though 36 % of Valkey's time is in it; 42 modules of the vote's way compiled by "
        "mypyc (all but the HTTP connection, the codec and pydantic's models): in four turns the gateway took "
        "2.57 to 2.74 times Valkey's time with them at 64 clients and 2.53 to 2.61 without, at 256 clients "
        "2.77 to 3.07 and 2.72 to 2.94. An interpreter that was built with optimisations, as "
        "the image's, takes a fifth less: in two turns 2.1 to 2.2 and 2.2 to 2.5 times Valkey's time with "
        "Debian's 3.13 and 3.14, 2.4 to 2.7 and 2.9 to 3.3 with a 3.11 that was built without.",
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
        "On two cores a rate is bounded by the CPU time of all servers and of the load. In two "
        "records of November 23 3 × the first peer leaves 173 and 182 µs of both processors for a vote of 64 "
        "clients, 273 and 258 for one of 256; the servers take 185 and 234, 193 and 178, and the load comes on "
        "top. With two workers the peer uses the"
        " second processor, which Kafka, Valkey and the projector have otherwise. The peers do one of the parts:"
        " a transaction without a log, or an append without counts, limits and vote ids. Tallykeeper does both, "
        "and folds the log: see the CPU time by process. The gateway takes less than the peers' handlers do; "
        "Valkey and the projector come on top. Shares of the gateway and what was tried: see its CPU time.",
    ),
    Limit(
        "batch",
        "",
        "Half of the loop's rate leaves 91 µs of both processors for a vote, and the servers alone take 114. A "
        "service of the same work has one pipeline and no "
        "receipts, confirmation or timeline. Shares "
        "of the gateway's Python: 31 % the votes' protocol and its driver, 11 % packing and reading calls"
        " of Valkey, 10 % JSON and forms, 9 % HTTP and the loop over items, 9 % queue and batches of the "
        "log, 8 % HMACs, 7 % events and their JSON, 7 % commands, 4 % answers. Tried, in the figures: "
        "calls of one partition's 64 requests instead of 4 of each of 16 partitions (Valkey's reservation"
        " 24 → 14 µs a vote), a voter's votes of a request reserved by one call instead of one after "
        "another (Valkey 44 → 32 µs a vote, 1.2 to 1.3 times the rate), no cycle that leaves a request's "
        "votes to the garbage collector (0.4 s for 75,000 votes), HMACs by copies of "
        "keyed objects, replies unpacked together, appends by callback instead of a task. After this record: "
        "reservation calls that follow one another instead of in rounds of four (1.05 and 1.13 times the rate, in "
        "turns).",
    ),
    Limit(
        "fold",
        "pipelined",
        "Plain commands have no repeated vote ids, limits, timeline, removals or receipts, which are the "
        "difference.",
    ),
    Limit(
        "fold",
        "",
        "The goal by CPU time is 2 µs above reading and decoding alone, and the goal by rate equals that of "
        "reading and decoding: both leave nothing for the judging of limits and repeated ids. Profiles of a "
        "fold of 60,000 and 150,000 votes, on a busy machine. Valkey: 30 % allocate and free "
        "memory, 17 % Lua's garbage collector, 17 % Lua's tables and strings, 13 % its interpreter, 5 % "
        "hashes, 4 % MessagePack. Projector: 22 % event "
        "loop and system calls, 20 % checks, base64 and SHA-256 of votes, 17 % Kafka's client, 12 % "
        "projection, 10 % packing and sending, 6 % JSON, 5 % records, 5 % FastStream. Tried since, in turns "
        "with the former code: methods of a contest shared instead of made for each fold, lists unpacked "
        "into tables of their size, and one search of a voter's sums: Valkey takes 0.56 to 0.70 of the "
        "time (0.55 to 0.91 with one vote a voter); records as tuples, base64 without copies: the projector "
        "0.79 to 0.89. Without gain: slices of 256 votes (0 to 10 %, and longer "
        "calls), a lazier garbage collector (30 % less with six versions of the functions loaded, nothing "
        "with one).",
    ),
    Limit(
        "replay",
        "",
        "Both run the same fold on the same machine; the rate is that of the fold alone, without "
        "verification and swap. Of 150,000 votes in turns a replay's loop took 9.8 to 12.4 µs of Python a "
        "vote, the live one 12.1 to 13.5, so Python does not explain a lower rate.",
    ),
    Limit(
        "tenfold",
        "verification",
        "In this record other work of low priority ran beside the live fold and the verifications. A process "
        "takes 40 µs of CPU time a vote (200,000 votes with one vote a voter, without the three seconds of its "
        "start), so two cores take 200 s for ten million, without Valkey's and Kafka's share. Shares of its "
        "samples: 47 % fold of the log, a quarter of it decoding, 31 % the facts that are expected and their "
        "comparison, 18 % exported facts. Tried, after this record: facts of a view that did not move meanwhile "
        "computed once instead of twice (12.5 → 11.1 s with the start, in turns).",
    ),
    Limit(
        "tenfold",
        "",
        "A vote costs more as the ledger grows: the first, second and third million, folded one after the other,"
        " took Valkey 7.8, 10.0 and 9.6 µs a vote, the projector 8.4, 9.4 and 9.0. Shares of Valkey's samples in "
        "the first and the third: one function of look-ups 3 and 6 %, tables that are copied as they double 0 and"
        " 3 %, compression when the append-only file is rewritten 0 and 2 %, allocation 19 and 21 %, system calls"
        " and page faults 5 and 7 %. Not tried: other tables; a file that is rewritten less often.",
    ),
    Limit(
        "counts",
        "FastAPI",
        "Three quarters of the gateway's samples through ASGI were outside of this project's code: the "
        "event loop, the HTTP parser and system calls, the same as for the peer. Of few participants the "
        "peer's HGETALL is cheap. Tried: answers rendered once for all readers, authorization without I/O, "
        "a route before FastAPI's, and one without ASGI: 61 to 81 instead of 102 to 163 µs of CPU time a "
        "read, measured in turns on a busy machine, on which bare ASGI took 25 to 48.",
    ),
    Limit(
        "counts",
        "",
        "What the ceiling has not: authorization, the choice of the answer, its headers (ETag, position, "
        "cache control, rate limit), and one read of the catalogue's position in Valkey for all that wait, "
        "at most a thousand a second. Tried: answers rendered once for all readers, a route before "
        "FastAPI's, and one without ASGI, which takes 40 to 55 % less CPU time than through ASGI.",
    ),
    Limit(
        "partitions",
        "idle",
        "Kafka's client names every partition in each fetch and reads as many in the response (40 % of an idle "
        "projector's samples at 256 partitions). Tried, in the figures: fetches of more than 64 partitions that "
        "wait longer for records, two seconds at most; new votes topics found by name instead of in Kafka's list "
        "of all partitions (a third of the gateway); first records and the log's ends read in turn, 64 at a time;"
        " the lag of streams from changed partitions only. Not done: incremental fetches (KIP-227), which need "
        "private parts of aiokafka.",
    ),
    Limit(
        "partitions",
        "gateways",
        "Each gateway has its own batches; a batch costs about 4 ms of all servers' CPU time beside what each "
        "vote costs. Tried, in the figures: votes that start in groups, half of those at a time, of 32 to 64, "
        "which wait as long as votes take, 10 to 30 ms. On a busy machine a call of Valkey and a request to Kafka"
        " of 64 clients served 31 votes by two gateways (14 before) and 47 by one (30 before). Tried without "
        "gain: a start as soon as as many votes wait as are in progress (12 to 15 votes a call by two gateways).",
    ),
    Limit(
        "partitions",
        "",
        "Sixty-four voters rarely share one of 256 partitions, and each partition has its own commands in the "
        "reservation, the confirmation and the fold: 8.3 inner commands a vote instead of 3.9 with 64 clients, "
        "7.0 instead of 2.3 with 256. Of the difference the fold has half (13 commands for a partition's 3.7 "
        "votes, at 16 partitions for its 9.2), the reservation two fifths (8 for 3.2 votes, or for 8.2), the "
        "confirmation a tenth. Tried: one call for all partitions of a server; batches of many partitions "
        "gathered until each has eight records, for 200 ms at most (a fold of one record takes 102 µs a vote, of "
        "eight 27); methods shared among partitions (with three votes in each, the reservation takes 0.80 of the "
        "former time of Valkey and the fold 0.95).",
    ),
    Limit(
        "streams",
        "memory",
        "A listener is a connection of uvicorn with its transport, parser, cycle and buffers, a task, and its "
        "place in the hub. Not taken apart further. Tried: nothing yet.",
    ),
    Limit(
        "streams",
        "p99",
        "An event to all of 19,000 takes 0.38 s of the gateway's processor, 20 µs a subscriber, so the round "
        "itself is as long as the goal; bare sockets take a half of it. Shares of its samples with 5,000 "
        "subscribers: 78 % write to one after the other (62 % in the "
        "system call, which bare sockets make, too); 7 % the event loop, 4 % deadlines "
        "and keys, the rest the votes. A subscriber waits for the next round, which begins 100 ms or twice "
        "the CPU time of the last one after it, so that votes have half of a core, and then for the "
        "subscribers before it. Tried: checks of keys in a task of their own and once for a caller, which "
        "had taken 80 to 130 ms in one go every two seconds; positions read every 25 instead of 50 ms. On a "
        "busy machine p50 went from 203 to 144 ms, p99 from 1,454 to 420, CPU time from 24.9 to 19.8 µs an "
        "event.",
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
        "A vote's record is 37 bytes (vote id 12, content hash 8, time 7, offset 5, choice 2, status 1, "
        "remaining votes 2), 48 where free votes renew, so three take 111. The voter's name takes 22, the "
        "sums for limits about 25; the rest is the entry of Valkey's table, of which 17 bytes are buckets: at "
        "this number of voters the tables are half full. A shorter id or hash would let other votes pass for "
        "a repeated one, and without the remaining votes a repeated vote could not be answered as the first "
        "time.",
    ),
    Limit(
        "memory",
        "50 votes",
        "Eight records lie with the voter. The other 42 are entries of their own, found by vote id in one "
        "look-up however many there are: 34 bytes of name, 37 of record and link, about 23 of table. "
        "Tried: older votes in buckets of 16 that are found by a hash of the vote id, with a bucket more for "
        "every 16 votes, and eight votes that leave the voter at once. A look-up still reads one bucket, and a "
        "voter of 50 votes takes 2,690 bytes. But Valkey executes 9 % more instructions a "
        "vote then, and 24 % more for voters of 1,000 votes (counted by callgrind, which no other load "
        "changes): a vote that leaves reads, splits or copies a bucket of 700 bytes, where one entry was "
        "written. Buckets of 8 take 2,900 bytes, of 32 2,620; fewer votes at a time cost more.",
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
        "A slice of 128 votes is for some 43 of 1,000 contests, each with two reads and two writes, where "
        "one contest has four for the whole slice: inner commands take 14 of Valkey's 41 µs a vote, beside 3 "
        "of 21. A vote reads and writes 1.3 rows instead of 0.6. Many rows are new in their partition at "
        "this size. Tried: methods of a contest shared and rare tables made on first use, slices as long as "
        "a call can fold: Valkey takes 0.65 to 0.68 of the former code's time.",
    ),
    Limit(
        "growth",
        "participants",
        "A slice of 128 votes for 10,000 participants reads, unpacks, packs and writes as many rows and adds "
        "each to its sorted set of changes; of ten participants each row is written once a slice. Tried: "
        "rows unpacked into tables of their size: Valkey takes 0.76 to 0.85 of the former code's "
        "time.",
    ),
    Limit(
        "growth",
        "renewals",
        "Each vote of a voter opens an allowance period: its sums replace those of the period before last, "
        "and records beyond eight become entries of their own. Tried: the period in the vote's record instead "
        "of an entry beside it, which is 41 bytes a vote less, and 4 to 7 % of Valkey's instructions.",
    ),
    Limit(
        "growth",
        "",
        "Tables and sorted sets of Valkey grow: more misses of the processor's caches, and copying when they "
        "double.",
    ),
    Limit(
        "visible",
        "",
        "A contest's counts are read again after ten times as long as the last read took, and after 5 ms at "
        "least. A read of changed counts of 100 participants takes 1.0 ms (0.7 of CPU time), of unchanged "
        "ones 0.34 (0.13): so a poll waits up to 10 ms after a change, beside the vote and its fold, which "
        "`with min_position` shows alone. Tried: one call that asks all partitions for changes (510 to 214 "
        "µs), and ten instead of twenty times (7 % of a process at most instead of 3.5).",
    ),
    Limit(
        "start",
        "",
        "CPU time of a start, on a busy machine: 9.5 s, after 18.7: Kafka 4.1 (6.1), command 2.0 (5.3), "
        "gateway 1.9 (4.3), projector 1.3 (2.8). Tried: Java's ahead-of-time cache (until Kafka answers 5.0 "
        "to 1.7 s), libraries imported when they are used (the gateway's imports 3.3 to 2.7 s, a "
        "command's 2.5 to 2.0), no garbage collection "
        "meanwhile (14 % of the gateway's imports). What is left of imports is redis-py (a fifth, all its "
        "commands, clusters and metrics), FastAPI or FastStream, aiokafka, and the models of the API. "
        "Servers, topics and services follow each other, since each needs the one before.",
    ),
)
NOT_PROFILED: Final = "Not profiled yet."


def limit_of(path: str, figure: str, against: str) -> str:
    name = f"{figure} against {against}"
    return next((limit.reason for limit in LIMITS if limit.path == path and limit.part in name), NOT_PROFILED)
