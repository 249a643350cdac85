"""Tasks by key: a slow one delays no other, and no key has two at once."""

import asyncio
import logging
from collections import Counter

import pytest

from libs.concurrency.tasks import KeyedTasks, every
from libs.tally.errors import ViewsUnavailable


async def test_a_task_that_hangs_delays_no_other_and_is_not_started_twice() -> None:
    started = Counter[str]()
    ended = asyncio.Event()

    async def work(key: str) -> None:
        started[key] += 1
        if key == "hangs":
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    tasks = KeyedTasks(work)
    for _ in range(3):
        tasks.start("hangs")
        tasks.start("works")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert started == {"hangs": 1, "works": 3}
    await tasks.cancel()
    assert ended.is_set()


async def test_a_loop_goes_on_after_errors_and_names_what_failed(caplog: pytest.LogCaptureFixture) -> None:
    tried, again = Counter[str](), asyncio.Event()

    async def work(key: str) -> None:
        tried[key] += 1
        if min(tried["away"], tried["broken"]) == 3:
            again.set()
        raise ViewsUnavailable("Valkey is away") if key == "away" else ZeroDivisionError

    loop = asyncio.create_task(every(0.0, lambda: ("away", "broken"), work, "keys cannot be read"))
    async with asyncio.timeout(10):
        await again.wait()
    loop.cancel()
    await asyncio.wait([loop])
    assert loop.cancelled()
    said = {(record.levelno, record.getMessage()) for record in caplog.records}
    assert said == {
        (logging.WARNING, "keys cannot be read: Valkey is away"),
        (logging.ERROR, "keys cannot be read"),
    }
