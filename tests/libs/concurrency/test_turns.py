"""Long turns of the event loop: avoided, and noticed."""

import asyncio
import time
from typing import Any

from libs.concurrency.loop_watch import STALL_S, watch_turns
from libs.concurrency.turns import LARGE_BYTES, TURN_BYTES, in_turns, off_loop
from tests.support.eventually import eventually


def work(cpu_s: float) -> float:
    began = time.thread_time()
    while time.thread_time() - began < cpu_s:
        pass
    return cpu_s


async def test_a_long_turn_is_reported_with_its_task_and_waiting_is_none() -> None:
    found = list[tuple[float, str]]()

    def name(task: asyncio.Task[Any] | None) -> str:
        return "" if task is None else task.get_name()

    async def busy() -> None:
        await asyncio.sleep(0)
        work(10 * STALL_S)

    async with watch_turns(lambda seconds, task: found.append((seconds, task)), name):
        await asyncio.sleep(3 * STALL_S)
        assert not found
        await asyncio.create_task(busy(), name="busy")

        async def is_found() -> bool:
            return bool(found)

        await eventually(is_found)
    assert found[0][0] > STALL_S
    assert found[0][1] == "busy"


async def test_items_are_worked_on_in_turns_by_their_size() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    sizes = [1, TURN_BYTES, 1, 1, 3 * TURN_BYTES]
    assert [size async for size in in_turns(sizes, int)] == sizes
    counting.cancel()
    assert turns == 2


async def test_large_input_is_worked_on_beside_the_loop() -> None:
    began = time.thread_time()
    assert await off_loop(LARGE_BYTES + 1, work, 0.3) == 0.3
    assert time.thread_time() - began < 0.3
    assert await off_loop(1, work, 0) == 0
