"""The Valkey in memory replies as a real one, call by call, in random schedules; a real one keeps the promises."""

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest

from tests.simulation.memory_valkey import MemoryValkey
from tests.simulation.real_valkey import Both, RealValkey, a_valkey
from tests.simulation.schedule import Runner
from tests.support.run_profile import by_profile

pytestmark = [pytest.mark.slow, pytest.mark.servers]

COMPARED = by_profile(short=20, long=1_000)
SCHEDULES = by_profile(short=40, long=5_000)
"""`.ci/run` runs more, by the command."""
FIRST = 500_000
PARTS = 4


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with asyncio.Runner() as runner:
        server = a_valkey()
        yield runner.run(server.__aenter__())
        runner.run(server.__aexit__(None, None, None))


def test_memory_and_a_real_server_reply_alike(url: str) -> None:
    databases = count()
    runner = Runner(lambda: Both(MemoryValkey(), RealValkey(url, next(databases))))
    runner.demand_promises(range(FIRST, FIRST + COMPARED))


@pytest.mark.parametrize("part", range(PARTS))
def test_no_promise_is_broken_with_a_real_server(url: str, part: int) -> None:
    databases = count()
    runner = Runner(lambda: RealValkey(url, next(databases)))
    runner.demand_promises(range(part, SCHEDULES, PARTS))
