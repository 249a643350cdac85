"""One contest's counts over all partitions, of which only those that changed are fetched again."""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from libs.tally.figures import Figures
from libs.views.votes import ContestCounts

NOTHING: Final = Figures()


class CountViews(Protocol):
    """What is needed of the vote views."""

    async def counts(self, partition: int, contest: str, known: int | None = None) -> ContestCounts | None: ...


class ContestSums:
    """The sum over partitions. A voter lives in one of them, so the sums of distinct voters are exact too."""

    def __init__(self, views: CountViews, contest: str, partitions: int) -> None:
        self._views = views
        self._contest = contest
        self._parts: list[ContestCounts | None] = [None] * partitions
        self._figures: dict[tuple[str, str], Figures] = {}

    async def refresh(self) -> bool:
        """Fetch what changed, in one pipeline; whether anything did. Raises `ViewsUnavailable`."""
        fetched = await asyncio.gather(
            *(
                self._views.counts(partition, self._contest, None if part is None else part.changed)
                for partition, part in enumerate(self._parts)
            )
        )
        changed = [(partition, part) for partition, part in enumerate(fetched) if part is not None]
        if changed:
            sums = dict(self._figures)
            for partition, part in changed:
                _replace(sums, self._parts[partition], part)
                self._parts[partition] = part
            self._figures = sums
        return bool(changed)

    @property
    def figures(self) -> Mapping[tuple[str, str], Figures]:
        """By (participant or "" for the contest, source or "" for both); replaced, never changed."""
        return self._figures

    @property
    def positions(self) -> dict[int, int]:
        """Next offsets by partition up to which the sums hold; they may hold further than that."""
        return {p: part.position.offset for p, part in enumerate(self._parts) if part is not None}

    @property
    def updated_ms(self) -> int | None:
        """When the last event of the contest was appended, None before there is one."""
        return max((part.updated_ms for part in self._parts if part and part.updated_ms), default=None)


def _replace(sums: dict[tuple[str, str], Figures], old: ContestCounts | None, new: ContestCounts) -> None:
    """Take a partition's old part out of the sums and put its new one in; a view that lost data has less."""
    before = old.figures if old is not None else {}
    for name in before.keys() | new.figures.keys():
        minus, plus = before.get(name, NOTHING), new.figures.get(name, NOTHING)
        if minus != plus:
            total = sums.get(name, NOTHING)
            sums[name] = Figures(
                total.count + plus.count - minus.count,
                total.unique + plus.unique - minus.unique,
                total.anonymous + plus.anonymous - minus.anonymous,
            )
