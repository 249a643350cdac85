"""Swap of a replay: makes a generation the one that readers see, or the former one again."""

from collections.abc import Mapping
from typing import Final, Self

from libs.concurrency.tasks import becomes_true
from libs.replay.targets import former, latest_swapped_in
from libs.tally.errors import ViewsUnavailable
from libs.views.generations.generations import FENCES_DIFFER, FencesDiffer, GenerationGone, Generations

SWAP_S: Final = 60.0
"""Time for the live generation to reach the new one's position."""
AGAIN_S: Final = 0.02


async def swap(generations: Generations, partition: int, number: int, *, accept: bool = False) -> None:
    """Swap as soon as both generations are at the same position; `accept`: even if their fences differ.

    Raises `FencesDiffer`, `GenerationGone`, and `ViewsUnavailable` after `SWAP_S`.
    """
    if not await becomes_true(
        lambda: try_swap(generations, partition, number, accept=accept), SWAP_S, poll_s=AGAIN_S
    ):
        raise NotReached.of(f"{generations.topic.name}/{partition}")


async def try_swap(
    generations: Generations, partition: int, number: int, *, accept: bool, at: int | None = None
) -> bool:
    """Swap if both generations are at the same position, and at the offset `at`; False if another call may do.

    A generation that replaces one of another layout may be ahead of it. Raises `FencesDiffer` and
    `GenerationGone`.
    """
    found = await generations.swap(partition, number, accept=accept, at=at)
    if found.reason == FENCES_DIFFER:
        raise FencesDiffer.of(number, f"{generations.topic.name}/{partition}")
    if not found.done and found.reason != "moving":
        raise GenerationGone(
            f"Generation {number} of {generations.base(partition)} cannot be swapped in: it is {found.reason}."
        )
    return found.done


class NotReached(ViewsUnavailable):
    """The generations did not come to the same position in time."""

    @classmethod
    def of(cls, place: str) -> Self:
        return cls(
            f"The live view of {place} does not reach the new one's position. Is a projector running? Run the "
            "same command again to resume",
            retry_after_s=1,
        )


async def roll_back(
    generations: Generations, *, execute: bool, accept: bool
) -> tuple[int | None, Mapping[int, int]]:
    """Swap the former generations back in where the latest one is live.

    Return its number, None if there is nothing to roll back, and theirs by partition. Raises as `swap`, and
    `GenerationGone` if only some are left.
    """
    found = await generations.read_all()
    number = latest_swapped_in(found.values())
    swaps = dict[int, int]()
    for partition, one in found.items():
        if one.live.number == number:
            if (kept := former(one)) is None:
                where = generations.base(partition)
                raise GenerationGone(
                    f"The views before generation {number} of {where} have expired: run a replay."
                )
            swaps[partition] = kept
    if execute:
        # Renew all partitions' time first, so that none expires: either all are swapped or none.
        for partition, kept in swaps.items():
            if not await generations.renew(partition, kept):
                raise GenerationGone.of(kept, generations.base(partition))
        for partition, kept in swaps.items():
            await swap(generations, partition, kept, accept=accept)
    return number, swaps
