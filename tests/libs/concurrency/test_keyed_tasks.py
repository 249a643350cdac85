"""Tasks by key: a slow one delays no other, and no key has two at once."""

import asyncio
from collections import Counter

from libs.concurrency.tasks import KeyedTasks


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
