"""Lag of the counting, as streams report it: records in the log that the views have not counted."""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from libs.contracts.topics import Log
from libs.kafka.reader import LogReader
from libs.tally.contest import MILLION
from libs.tally.errors import LogUnavailable
from services.query.snapshot_cache import now

logger = logging.getLogger(__name__)

READ_S: Final = 1.0
"""Interval of the reads of the log's ends."""
READ_IN_TURN: Final = 64
"""Partitions that each of them reads while none is behind; an end takes some 25 us of CPU time."""
LATE_US: Final = 2 * MILLION
"""Records uncounted for less are on their way: no lag."""
MOST_ENDS: Final = 600
"""Ends kept per partition; later ones then count as old as the last of them."""


STOPPED_US: Final = 5 * MILLION
"""The log counts as stopped if its ends could not be read for so long: no vote is accepted either."""


class CountingLag(NamedTuple):
    """Records of all contests that wait to be counted, and for how many whole seconds the oldest has waited.

    `is_stopped`: the log does not respond, so nothing is accepted or counted.
    """

    records: int
    seconds: int
    is_stopped: bool = False


NO_LAG: Final = CountingLag(0, 0)


class _End(NamedTuple):
    """An end of a partition, and when it was first observed."""

    offset: int
    at: int


class LagMeter:
    """Compares positions of the views with the log's ends, which are read once a second.

    While no partition is behind, `READ_IN_TURN` of them are read in turn. A record's age counts from the first
    read that included it, so `seconds` is less than the truth by these turns (four of 256 partitions) and a
    second at most. While Kafka is unavailable, the last ends stay, and `lag` says that it is stopped.
    """

    def __init__(self, log: LogReader, topic: Log) -> None:
        self._log = log
        self._topic = topic
        self._ends: defaultdict[int, deque[_End]] = defaultdict(deque)
        self._positions: dict[int, int] = {}
        self.behind: set[int] = set()
        """Partitions with records that are not counted: `lag` goes through these only."""
        self._turn = 0
        self._waits_since: int | None = None

    async def watch(self, wanted: asyncio.Event) -> None:
        """Read the ends at intervals while `wanted` is set, for ever."""
        while True:
            if not wanted.is_set():
                self._waits_since = None
                await wanted.wait()
            try:
                moment = now()
                self._waits_since = self._waits_since or moment
                self.observe(await self._log.end_offsets(self._topic.name, self.next_turn()), moment)
                self._waits_since = None
            except LogUnavailable:
                pass  # votes are not accepted either
            except Exception:
                logger.exception("the ends of the log cannot be read")
            await asyncio.sleep(READ_S)

    def next_turn(self) -> Sequence[int]:
        """Return the partitions whose ends are to be read next."""
        numbers = self._topic.numbers
        turns = -(-len(numbers) // READ_IN_TURN)
        if self.behind or turns <= 1:
            return numbers
        self._turn = (self._turn + 1) % turns
        return numbers[self._turn :: turns]

    def observe(self, ends: Mapping[int, int], moment: int) -> None:
        """Take over ends read at `moment` (microseconds since 1970)."""
        for partition, offset in ends.items():
            known = self._ends[partition]
            if known and offset <= known[-1].offset:
                continue
            if len(known) < MOST_ENDS:
                known.append(_End(offset, moment))
            else:
                known[-1] = _End(offset, known[-1].at)
            self._compare(partition)

    def move(self, positions: Mapping[int, int]) -> None:
        """Take over changed positions of views: next offsets by partition."""
        self._positions |= positions
        for partition in positions:
            self._compare(partition)

    def lag(self, moment: int) -> CountingLag:
        """Return the lag at a moment; none below `LATE_US`."""
        records, since = 0, moment
        for partition in self.behind:
            known = self._ends[partition]
            records += known[-1].offset - self._positions[partition]
            since = min(since, known[0].at)
        late = moment - since
        is_stopped = self._waits_since is not None and moment - self._waits_since >= STOPPED_US
        found = CountingLag(records, late // MILLION) if late >= LATE_US else NO_LAG
        return found._replace(is_stopped=is_stopped)

    def _compare(self, partition: int) -> None:
        """Drop the ends that a view has reached, except the last, and note whether it is behind that."""
        known, position = self._ends[partition], self._positions.get(partition)
        while position is not None and len(known) > 1 and known[0].offset <= position:
            known.popleft()
        if position is not None and known and known[0].offset > position:
            self.behind.add(partition)
        else:
            self.behind.discard(partition)
