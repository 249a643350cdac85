"""Runs the peers of the fold and measures them by the positions that they commit."""

import asyncio
import re
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from redis.asyncio import Redis

from libs.contracts.topics import Topic
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.local_stack.servers import Addresses
from tests.benchmarks.cpu import CpuMeter
from tests.benchmarks.measurement import Run
from tests.benchmarks.peers.environments import Unavailable, kafka_streams, script
from tests.benchmarks.peers.redis_fold import POSITIONS
from tests.benchmarks.stack import process

EXACTLY_ONCE, AT_LEAST_ONCE = "Kafka Streams, exactly_once_v2", "Kafka Streams, at_least_once"
QUIX, FAUST, BYTEWAX, PIPELINED = "Quix Streams", "Faust", "bytewax", "pipelined HMGET + HSET"
POLL_S = 0.05
START_S, WHOLE_S = 240.0, 300.0
PARTS = ("peer", "Kafka")
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x09\x0b-\x1f]")
RESTARTS = 2

Progress = Callable[[], Awaitable[int]]
"""Returns the number of records folded and committed so far."""


class Ended(Unavailable):
    """A peer that ended by itself."""


@dataclass(frozen=True)
class Log:
    """A topic of so many votes."""

    addresses: Addresses
    topic: Topic
    events: int


@dataclass(frozen=True)
class FoldPeer:
    """A peer, the parts of the work that it leaves out, and its run within `limit_s`; raises `Unavailable`."""

    name: str
    note: str
    run: Callable[[Log, float], Awaitable[Run]]


async def run_group(
    install: Callable[[], Awaitable[list[str]]], log: Log, limit_s: float, *, arguments: tuple[str, ...] = ()
) -> Run:
    """Measure a peer by the offsets that its group commits; with several stages, by the one that is behind."""
    group, command = f"peer-{uuid.uuid4().hex[:8]}", await install()

    async def committed() -> int:
        try:
            offsets = await admin.list_consumer_group_offsets(group)
        except KafkaError:
            return 0
        topics: dict[str, int] = {}
        for partition, found in offsets.items():
            topics[partition.topic] = topics.get(partition.topic, 0) + max(0, found.offset)
        return min(topics.values(), default=0)

    async with AsyncExitStack() as resources:
        state = resources.enter_context(
            tempfile.TemporaryDirectory(prefix="tally-peer-", ignore_cleanup_errors=True)
        )
        admin = AIOKafkaAdminClient(**connection(KafkaSettings(kafka_bootstrap_servers=log.addresses.kafka)))
        await admin.start()
        resources.push_async_callback(admin.close)
        parameters = [log.addresses.kafka, log.topic.name, group, *arguments, state]
        for _ in range(RESTARTS):
            try:
                return await watched([*command, *parameters], committed, log.events, limit_s, PARTS)
            except Ended:
                """A topic that it has just created may not be known to the broker yet."""
        return await watched([*command, *parameters], committed, log.events, limit_s, PARTS)


async def run_pipelined(log: Log, limit_s: float) -> Run:
    """Measure plain commands by the positions that they keep beside the counts."""
    command = [sys.executable, "-m", "tests.benchmarks.peers.redis_fold", log.addresses.kafka, log.topic.name]
    async with Redis.from_url(log.addresses.valkey) as redis:

        async def position() -> int:
            return sum(int(offset) for offset in await redis.hvals(POSITIONS))

        parts = (*PARTS, "Valkey")
        return await watched([*command, log.addresses.valkey], position, log.events, limit_s, parts)


async def run_bytewax(log: Log, limit_s: float) -> Run:
    """Measure the whole run of a peer that commits no offsets."""
    command = await script("bytewax_fold.py")
    with tempfile.TemporaryDirectory(prefix="tally-peer-") as state:
        output, recovery = Path(state, "output"), f"{state}/recovery"
        begun, meter = time.perf_counter(), CpuMeter()
        async with process([*command, log.addresses.kafka, log.topic.name, recovery], log=output) as started:
            used = meter.each_us(log.events, PARTS)
            while started.returncode is None:
                if time.perf_counter() - begun > WHOLE_S:
                    raise Unavailable(f"not done after {WHOLE_S:g} s")
                used = meter.each_us(log.events, PARTS)
                await asyncio.sleep(POLL_S)
        if started.returncode:
            raise Unavailable(last_line(output))
        return Run(log.events / (time.perf_counter() - begun), used)


async def watched(
    command: list[str], progress: Progress, events: int, limit_s: float, parts: tuple[str, ...]
) -> Run:
    """Run a peer until it has folded all, or for so long, and measure between its first and last position."""
    with tempfile.NamedTemporaryFile() as file:
        output = Path(file.name)

        async def next_position(known: int, until: float) -> int:
            """Wait for a later position, at most until this time."""
            while (found := await progress()) <= known:
                if started.returncode is not None:
                    raise Ended(f"it ended: {last_line(output)}")
                if time.perf_counter() > until:
                    return known
                await asyncio.sleep(POLL_S)
            return found

        begun, meter = time.perf_counter(), CpuMeter()
        async with process(command, log=output) as started:
            first = await next_position(0, begun + START_S)
            if first == 0:
                raise Unavailable(f"it folded nothing in {START_S:g} s: {last_line(output)}")
            if first >= events:  # too few to leave out its start
                return Run(events / (time.perf_counter() - begun), meter.each_us(events, parts))
            begun, meter = time.perf_counter(), CpuMeter()
            last, run = first, None
            while last < events and (found := await next_position(last, begun + limit_s)) > last:
                last, took_s = found, time.perf_counter() - begun
                run = Run((last - first) / took_s, meter.each_us(last - first, parts))
            if run is None:
                raise Unavailable(f"it folded {first:,} events, then none in {limit_s:g} s: {last_line(output)}")
            return run


def last_line(output: Path) -> str:
    """Return the last line with text, without a terminal's control sequences."""
    text = CONTROLS.sub("", output.read_text(errors="replace"))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"


UNLIKE = "it does not find repeated vote ids, nor check limits"
GROUPS = (
    FoldPeer(EXACTLY_ONCE, UNLIKE, partial(run_group, kafka_streams, arguments=("exactly_once_v2",))),
    FoldPeer(
        AT_LEAST_ONCE,
        f"after a crash votes may count twice; {UNLIKE}",
        partial(run_group, kafka_streams, arguments=("at_least_once",)),
    ),
    FoldPeer(
        QUIX,
        f"at least once, so after a crash votes may count twice; {UNLIKE}",
        partial(run_group, partial(script, "quix_fold.py")),
    ),
    FoldPeer(
        FAUST,
        f"at least once, so after a crash votes may count twice; {UNLIKE}",
        partial(run_group, partial(script, "faust_fold.py")),
    ),
    FoldPeer(PIPELINED, f"nothing ensures its one writer per partition; {UNLIKE}", run_pipelined),
)
"""Peers that are measured between two of their positions."""
WHOLE = FoldPeer(
    BYTEWAX,
    f"a snapshot every second, and a smaller log; its start is included, as it commits no offsets; {UNLIKE}",
    run_bytewax,
)
