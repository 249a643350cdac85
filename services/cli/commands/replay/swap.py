"""Swap of a replay: makes a generation the one that readers see."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from libs.tally.errors import ViewsUnavailable
from libs.views.generations import GenerationGone, Generations
from libs.views.swap_result import ANOTHER_IS_KEPT, FENCES_DIFFER, AnotherIsKept, FencesDiffer

SWAP_S: Final = 60.0
"""Time for the live generation to reach the new one's position."""
AGAIN_S: Final = 0.02

CatchUp = Callable[[int], Awaitable[None]]


async def swap(
    generations: Generations,
    partition: int,
    number: int,
    *,
    read: bool = True,
    accept: bool = False,
    catch_up: CatchUp | None = None,
) -> None:
    """Swap as soon as both generations are at the same position; `accept`: even if their fences differ.

    `catch_up` folds the partition's generation up to the log's end, if no projector does.

    Raises `AnotherIsKept`, `FencesDiffer`, `GenerationGone`, and `ViewsUnavailable` after `SWAP_S`.
    """
    deadline = time.monotonic() + SWAP_S
    while True:
        if catch_up is not None:
            await catch_up(partition)
        found = await generations.swap(partition, number, read=read, accept=accept)
        if found.done:
            return
        if found.reason == FENCES_DIFFER:
            raise FencesDiffer.of(number, f"{generations.topic.name}/{partition}")
        if found.reason == ANOTHER_IS_KEPT:
            raise AnotherIsKept.of(number, generations.topic.name)
        if found.reason != "moving":
            raise GenerationGone(
                f"Generation {number} of {generations.base(partition)} cannot be swapped in: it is {found.reason}."
            )
        if time.monotonic() > deadline:
            raise ViewsUnavailable(
                f"The live view of {generations.topic.name}/{partition} does not reach the new one's position. "
                "Is a projector running? Run the same command again to resume",
                retry_after_s=1,
            )
        if catch_up is None:
            await asyncio.sleep(AGAIN_S)
