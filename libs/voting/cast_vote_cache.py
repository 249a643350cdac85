"""Cache of cast votes by their position in the log; each is read once, since the log never changes."""

from collections import OrderedDict
from typing import Final

from libs.tally.events import VoteCast
from libs.voting.record_reader import CastReader

MOST_CASTS: Final = 10_000


class CastCache:
    """Reads cast votes from the log and keeps the latest `MOST_CASTS`."""

    def __init__(self, read: CastReader) -> None:
        self._read = read
        self._casts: OrderedDict[tuple[int, int], VoteCast | None] = OrderedDict()

    async def read(self, partition: int, offset: int) -> VoteCast | None:
        """Return the vote; None if another event is there. Raises `LogUnavailable`."""
        place = partition, offset
        if place not in self._casts:
            self._casts[place] = await self._read(partition, offset)
            if len(self._casts) > MOST_CASTS:
                self._casts.popitem(last=False)
        self._casts.move_to_end(place)
        return self._casts[place]
