"""Tasks by key, the first of several calls to succeed, and the end of a task."""

import asyncio
import logging
from collections import Counter

import pytest

from libs.concurrency import tasks
from libs.concurrency.tasks import KeyedTasks, end_tasks, every, first_success
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


async def test_a_task_that_loses_a_cancellation_is_ended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `asyncio.gather` loses it, whose call fails while it is cancelled."""
    monkeypatch.setattr(tasks, "AGAIN_S", 0.01)
    failures = Counter[str]()

    async def fails_when_it_is_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ViewsUnavailable("away") from None

    async def reads_again_and_again() -> None:
        while True:
            try:
                await asyncio.gather(fails_when_it_is_cancelled())
            except ViewsUnavailable:
                failures["lost"] += 1
                await asyncio.Event().wait()

    reading = asyncio.create_task(reads_again_and_again())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.wait_for(end_tasks([reading]), 20)
    assert (reading.cancelled(), failures["lost"]) == (True, 1)


async def hang() -> int:
    await asyncio.Event().wait()
    return 0


async def fail() -> int:
    raise ValueError("failed")


async def succeed() -> int:
    await asyncio.sleep(0)
    return 7


async def test_calls_that_hang_or_fail_do_not_matter_beside_one_that_succeeds() -> None:
    assert await first_success([hang(), fail(), succeed(), hang()]) == 7
    assert not [task for task in asyncio.all_tasks() if "object hang " in repr(task.get_coro())]


async def test_the_error_is_that_of_a_call_if_all_fail() -> None:
    with pytest.raises(ValueError, match="failed"):
        await first_success([fail(), fail()])
