"""Capacity for a number of votes: formulas over measured figures and assumed prices.

A formula is text, shown on the page and evaluated as it stands. It may use measured figures, assumptions, the rate
and number of votes, and the quantities before it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.benchmarks.figures import (
    ANSWER,
    APPEND_ONLY_FILE,
    FROM_VALKEY,
    LOG,
    REQUEST,
    TO_VALKEY,
    Figures,
)

LOADED = "256 clients, 1 worker"
HOUR_S = 3_600


@dataclass(frozen=True, slots=True)
class Known:
    """A number that formulas use: its name, value, unit and meaning."""

    name: str
    value: float
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Size:
    """Votes to take: a rate at the peak, and all votes that are kept."""

    title: str
    rate: float
    votes: float


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity, its formula and unit, and a title on the page ("": not shown there)."""

    name: str
    formula: str
    unit: str
    title: str


@dataclass(frozen=True, slots=True)
class Wall:
    """A resource, the amount that exhausts it in the smallest deployment, and the remedy.

    `used` is the part of it that is in use in a deployment of a size; "" where it does not depend on that.
    """

    resource: str
    limit: str
    unit: str
    used: str
    remedy: str


PEAK_S = 600
SIZES = (
    *(Size(f"{rate:,} votes/s", rate, rate * PEAK_S) for rate in (10_000, 100_000, 1_000_000)),
    Size("100 million voters", 3 * 100e6 / HOUR_S, 3 * 100e6),
)
ASSUMED = (
    Known("busy", 0.6, "", "part of a core, a network or a memory that may be in use at the peak"),
    Known("copies", 3, "", "copies of the log (its replication factor) and of a shard (primary, two replicas)"),
    Known("votes_of_voter", 3, "votes", "votes of a voter"),
    Known("broker_cores", 8, "cores", "cores of a broker"),
    Known("broker_gib", 32, "GiB", "memory of a broker: most of it caches the end of the log"),
    Known("broker_network", 1.25e9, "bytes/s", "network of a broker, each way (10 Gbit/s)"),
    Known("shard_gib", 24, "GiB", "memory of a Valkey server; a larger one takes long to copy to a new replica"),
    Known("generations", 2, "", "generations of the views: during a replay there are two"),
    Known("core_hour", 0.04, "$", "price of a core for an hour"),
    Known("gib_hour", 0.005, "$", "price of a GiB of memory for an hour"),
    Known("disk_gib_month", 0.10, "$", "price of a GiB of disk for a month"),
    Known("zone_gib", 0.01, "$", "price of a GiB between zones; two thirds of all traffic is, with three zones"),
    Known("egress_gib", 0.08, "$", "price of a GiB to the internet: the answers"),
)
QUANTITIES = (
    Quantity("voters", "votes / votes_of_voter", "", "voters"),
    Quantity("gateways", "ceil(rate * gateway_us / 1e6 / busy)", "", "gateway processes, a core each"),
    Quantity("projectors", "max(2, ceil(rate * projector_us / 1e6 / busy))", "", "projectors, a core each"),
    Quantity("view_gib", "voters * voter_bytes * generations / GiB", "GiB", "memory of the views, one copy"),
    Quantity(
        "shards",
        "max(ceil(rate * valkey_us / 1e6 / busy), ceil(view_gib / shard_gib / busy))",
        "",
        "Valkey shards, by CPU or memory",
    ),
    Quantity("valkeys", "shards * copies", "", "Valkey servers, a core each"),
    Quantity("valkey_gib", "max(1, ceil(view_gib / shards / busy))", "GiB", "memory of a Valkey server"),
    Quantity("log_bytes_s", "rate * log_bytes", "bytes/s", ""),
    Quantity(
        "brokers",
        "max(3, ceil(rate * kafka_us * copies / 1e6 / broker_cores / busy), "
        "ceil(log_bytes_s * copies / broker_network / busy))",
        "",
        "Kafka brokers, by CPU or network",
    ),
    Quantity("partitions", "max(16, 2 ** ceil(log2(2 * max(shards, projectors))))", "", "partitions of the log"),
    Quantity("cores", "gateways + projectors + valkeys + brokers * broker_cores", "", "cores of all together"),
    Quantity(
        "memory_gib",
        "valkeys * valkey_gib + brokers * broker_gib "
        "+ (gateways * gateway_mb + projectors * projector_mb) * 1e6 / GiB",
        "GiB",
        "memory of all together",
    ),
    Quantity("log_gib", "votes * log_bytes * copies / GiB", "GiB", "disk of the log"),
    Quantity("file_gib", "votes * file_bytes * copies / GiB", "GiB", "disk of append-only files, at most"),
    Quantity(
        "inside_bytes_s",
        "rate * (to_valkey_bytes + from_valkey_bytes + (copies - 1) * file_bytes + (copies + 1) * log_bytes)",
        "bytes/s",
        "network between the servers",
    ),
    Quantity("outside_bytes_s", "rate * (request_bytes + answer_bytes)", "bytes/s", "network to the voters"),
    Quantity("replay_h", "votes / replay_per_s / 3600", "h", "replay of the whole log, one process"),
    Quantity(
        "machines_per_hour", "cores * core_hour + memory_gib * gib_hour", "$/h", "money: cores and memory, an hour"
    ),
    Quantity(
        "network_per_million",
        "1e6 * (inside_bytes_s / rate * 2 / 3 * zone_gib + answer_bytes * egress_gib) / GiB",
        "$",
        "money: network, a million votes",
    ),
    Quantity(
        "disk_per_month", "(log_gib + file_gib) * disk_gib_month", "$/month", "money: disk of all votes, a month"
    ),
)
RATE = "votes/s"
WALLS = (
    Wall(
        "gateway (one process)",
        "1e6 / gateway_us",
        RATE,
        "rate * gateway_us / 1e6 / gateways",
        "add gateways: they hold no state",
    ),
    Wall(
        "Valkey (one shard: its commands run on one core)",
        "1e6 / valkey_us",
        RATE,
        "rate * valkey_us / 1e6 / shards",
        "add shards, up to one for each partition",
    ),
    Wall(
        "projector (one process)",
        "1e6 / projector_us",
        RATE,
        "rate * projector_us / 1e6 / projectors",
        "add projectors, up to one for each partition; until then counts are late, no vote is refused for it",
    ),
    Wall(
        "CPU of brokers (three)",
        "3 * broker_cores * 1e6 / kafka_us / copies",
        RATE,
        "rate * kafka_us * copies / 1e6 / brokers / broker_cores",
        "add brokers and move partitions to them",
    ),
    Wall(
        "network of brokers (three)",
        "3 * broker_network / log_bytes / copies",
        RATE,
        "log_bytes_s * copies / broker_network / brokers",
        "compress (`TALLY_PRODUCE_COMPRESSION=gzip`), then add brokers",
    ),
    Wall(
        "memory of Valkey (one shard)",
        "shard_gib * GiB / voter_bytes / generations",
        "voters",
        "view_gib / shards / shard_gib",
        "add shards; export and delete contests that are sealed",
    ),
    Wall(
        "replay of all views within a night (8 h)",
        "8 * 3600 * replay_per_s",
        "votes",
        "",
        "replay single contests; export and delete those that are sealed",
    ),
)


def measured(figures: Figures) -> Sequence[Known]:
    """Return the measured figures that the formulas use. Raises `NotMeasured`."""
    cpu = figures.cpu_us("votes", LOADED)
    replay = figures.section("replay").measurements[0]
    load = f"CPU time a vote, POST of one vote, {LOADED}"
    return (
        Known("gateway_us", cpu["gateway"], "µs", f"gateway: {load}"),
        Known("valkey_us", cpu["Valkey"], "µs", "Valkey: the same"),
        Known("projector_us", cpu["projector"], "µs", "projector: the same"),
        Known("kafka_us", cpu["Kafka"], "µs", "broker, for one copy: the same"),
        Known("log_bytes", figures.value("bytes", LOG), "bytes", f"a vote {LOG}, not compressed"),
        Known("file_bytes", figures.value("bytes", APPEND_ONLY_FILE), "bytes", f"a vote {APPEND_ONLY_FILE}"),
        Known("to_valkey_bytes", figures.value("bytes", TO_VALKEY), "bytes", f"a vote, {TO_VALKEY}"),
        Known("from_valkey_bytes", figures.value("bytes", FROM_VALKEY), "bytes", f"a vote, {FROM_VALKEY}"),
        Known("request_bytes", figures.value("bytes", REQUEST), "bytes", REQUEST),
        Known("answer_bytes", figures.value("bytes", ANSWER), "bytes", ANSWER),
        Known("voter_bytes", figures.value("memory", "a voter with 3 votes"), "bytes", "a voter with 3 votes"),
        Known("gateway_mb", figures.value("memory", "process gateway"), "MB", "memory of a gateway"),
        Known("projector_mb", figures.value("memory", "process projector"), "MB", "memory of a projector"),
        Known("replay_per_s", replay.ours.value, "votes/s", replay.name),
    )


def sized(known: Sequence[Known], size: Size) -> Mapping[str, float]:
    """Return all names that formulas may use, with the quantities for this size."""
    names = {each.name: each.value for each in (*ASSUMED, *known)} | {"rate": size.rate, "votes": size.votes}
    for quantity in QUANTITIES:
        names[quantity.name] = evaluated(quantity.formula, names)
    return names


def evaluated(formula: str, names: Mapping[str, float]) -> float:
    allowed = {"__builtins__": {}, "ceil": math.ceil, "log2": math.log2, "max": max, "GiB": 2**30}
    return float(eval(formula, allowed, dict(names)))


def walls_of(names: Mapping[str, float]) -> Sequence[tuple[float, Wall]]:
    """Return the part of each resource that is in use in this size's deployment, the largest first."""
    used = [(evaluated(wall.used, names), wall) for wall in WALLS if wall.used]
    return sorted(used, key=lambda each: -each[0])
