"""Whether anything moved that counts are made of: one look for all streams of a process."""

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

from libs.contracts.log_records import Position
from libs.tally.errors import ViewsUnavailable
from libs.views.catalogue import Mark
from libs.views.client import NO_ANSWER
from libs.views.freshness import RECOVERING

LOOK_S: Final = 2.0
"""A look that takes longer found nobody."""


class Views(Protocol):
    """What is needed of the vote views."""

    async def position(self, partition: int) -> Position | None: ...


class Catalogue(Protocol):
    """What is needed of the catalogue's views."""

    async def mark(self, partition: int) -> Mark: ...


View = tuple[str, int]
"""Of which topic, and which partition."""


class ChangeDetector:
    """Remembers where the views stood.

    A replay's swap alone moves none of the votes' positions: it shows with the next vote, or to who looks anyway.
    """

    def __init__(self, views: Views, catalogue: Catalogue, partitions: int) -> None:
        self._views = views
        self._catalogue = catalogue
        self._partitions = partitions
        self._stood: dict[View, Mark] = {}

    async def moved(self, catalogue: Iterable[int]) -> bool:
        """Whether anything did since the last look; of the catalogue in these partitions.

        Raises `ViewsUnavailable` while the views are away, or folded again and not yet where they were.
        """
        try:
            async with asyncio.timeout(LOOK_S):
                found = dict(
                    await asyncio.gather(
                        *(self._of_votes(partition) for partition in range(self._partitions)),
                        *(self._of_catalogue(partition) for partition in set(catalogue)),
                    )
                )
        except TimeoutError:
            raise ViewsUnavailable(NO_ANSWER, retry_after_s=1, cause=f"no answer within {LOOK_S:g} s") from None
        if any(view in self._stood and _is_behind(self._stood[view], mark) for view, mark in found.items()):
            raise ViewsUnavailable(RECOVERING, retry_after_s=1, cause="the views are being folded again")
        moved = any(self._stood.get(view) != mark for view, mark in found.items())
        self._stood |= found
        return moved

    async def _of_votes(self, partition: int) -> tuple[View, Mark]:
        return ("votes", partition), Mark(await self._views.position(partition), 0)

    async def _of_catalogue(self, partition: int) -> tuple[View, Mark]:
        return ("catalogue", partition), await self._catalogue.mark(partition)


def _is_behind(held: Mark, found: Mark) -> bool:
    if held.position is None or found.position is None:
        return held.position is not None
    return found.position.log_id == held.position.log_id and found.position.offset < held.position.offset
