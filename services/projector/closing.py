"""The process manager of closings: ends contests, puts the marks of that into the log, and voids them again.

A contest ends once the clocks of all partitions, and this process's, have passed its end: setting right a clock
that was wrong would not open it again.

The manager works off what the catalogue's views say is due. Each step shows in a view before the next one is
taken. So after a crash, or beside another manager, steps are repeated, to no effect: a ContestClosing made from
an older configuration is refused, of the marks of one closing the first counts, and one of a reopened closing is
void.

No mark overtakes a vote that was accepted. From the fold of ContestClosing on, every partition refuses what an
older configuration would admit. What was admitted before is pending there until its record is folded, or a fence
has made sure that it never will count. A mark is appended when nothing is pending: all that counts lies before it.
One that comes late, of a manager that slept, finds its closing marked, or voided: behind a reopening no partition
admits votes before it has folded that, and with it voided all marks of the closing, those to come too.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

import orjson

from libs.catalogue.contests.closing import Closing, closed, closing_of
from libs.catalogue.contests.mapper import contest_of, sources_of
from libs.catalogue.writer import CatalogueWriter, RecordTooLarge, Request
from libs.contracts.catalogue import ContestClosing, ContestConfig
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Appended
from libs.contracts.topics import Topic, source_log_key
from libs.tally.contest import Contest
from libs.tally.errors import LogUnavailable, ViewsUnavailable
from libs.tally.events import Actor, ContestClosed, ContestReopened
from libs.views.catalogue import CatalogueViews
from libs.views.replies import ClosingState
from libs.views.votes import VoteViews

POLL_S: Final = 0.5
PAGE: Final = 200
"""Contests looked up at once, the longest due first."""
AT_ONCE: Final = 16
"""Contests worked on at a time."""
TOO_LARGE_US: Final = 30_000_000
"""When a contest is tried again whose record has no room for what its closing freezes."""
AGAIN_S: Final = 5.0
"""A mark that was not folded by then is appended once more, to no effect unless the first was lost."""
REOPENS_AT_ONCE: Final = 64
"""Changes that waited of which one mark of a reopening makes an end: half a fold's call."""
MOST_REOPENING: Final = 200
"""Marks of a reopening appended at once: more, when those are folded."""

logger = logging.getLogger(__name__)

Mark = ContestClosed | ContestReopened


class _Sent(NamedTuple):
    """A mark on its way since then (loop time), and its offset."""

    at: float
    offset: int


class Log(Protocol):
    """What is needed of the log writer."""

    async def append(self, topic: str, partition: int, value: bytes) -> Appended: ...


class ClosingManager:
    """Looks after the contests of the catalogue partitions that this projector folds."""

    def __init__(
        self,
        topic: Topic,
        catalogue: CatalogueViews,
        votes: VoteViews,
        log: Log,
        writer: CatalogueWriter,
        assigned: Callable[[], Collection[int]],
        source_grace_s: float,
    ) -> None:
        """`topic` is that of the votes; `writer` records in the catalogue's."""
        self._topic = topic
        self._catalogue = catalogue
        self._votes = votes
        self._log = log
        self._writer = writer
        self._assigned = assigned
        self._grace_us = int(source_grace_s * 1_000_000)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._sent: dict[tuple[int, Mark], _Sent] = {}

    async def run(self) -> None:
        """Work until cancelled; a server that is away is asked again at the next turn."""
        while True:
            await asyncio.gather(*(self._look(partition) for partition in self._assigned()))
            past = asyncio.get_running_loop().time() - AGAIN_S
            self._sent = {mark: sent for mark, sent in self._sent.items() if sent.at > past}
            await asyncio.sleep(POLL_S)

    async def _look(self, partition: int) -> None:
        with _logged(f"which contests of partition {partition} are due"):
            due = await self._catalogue.due(partition, PAGE)
            await asyncio.gather(*(self._attend(account, key) for account, key in due))

    async def _attend(self, account: str, key: str) -> None:
        with _logged(f"what contest {key} of {account} needs"):
            async with self._slots:
                await self._take_step(account, key)

    async def _take_step(self, account: str, key: str) -> None:
        config = await self._catalogue.contest_config(account, key)
        contest = contest_of(account, config)
        if contest is None or config.contest is None:
            return  # deleted a moment ago
        states = await asyncio.gather(
            *(self._votes.closing(partition, contest.key) for partition in range(self._topic.partitions))
        )
        closing = closing_of(config.contest.document)
        finishes = contest.finishes
        if any(state.reopened < contest.reopened for state in states):
            await self._void_marks(contest, states)
        elif closing is not None:
            await self._mark(contest, closing, states)
        elif finishes is None or min(_now(), *(state.now for state in states)) < finishes:
            await self._settle(contest, finishes)
        else:
            await self._close(contest, config, finishes)

    async def _close(self, contest: Contest, config: ContestConfig, end: int) -> None:
        """Decide the closing, by the records as they were read; where they have changed since, not yet."""
        assert config.contest is not None
        document = closed(config.contest.document, contest, sources_of(config), end)
        command = ContestClosing(
            account=contest.account,
            command_id=Request.once().command_id,
            at=self._writer.now(),
            contest=contest.key,
            record=orjson.dumps(document).decode(),
            expected_config=contest.version,
            actor=Actor("process", "projector", socket.gethostname()),
        )
        try:
            await self._writer.record(command)
        except RecordTooLarge as error:
            logger.error("contest %s of %s cannot be closed: %s", contest.key, contest.account, error)
            await self._settle(contest, _now() + TOO_LARGE_US)  # not before all others

    async def _mark(self, contest: Contest, closing: Closing, states: Sequence[ClosingState]) -> None:
        """Append the marks that are due; settled when all are folded, or but those that a source may wait for."""
        key, seq = contest.key, closing.seq
        missing, waiting = False, []
        for partition, state in enumerate(states):
            if state.closed < seq:
                missing = True
                if state.pending == 0 and (state.in_force is None or state.in_force >= contest.version):
                    await self._append(partition, state, ContestClosed(key, seq))
        for name, source in closing.sources.items():
            partition = self._topic.partition_of(source_log_key(key, name))
            state = states[partition]
            until = closing.end + (0 if source.retired else self._grace_us)
            if closing.sources_until is not None:
                until = min(until, closing.sources_until)
            if state.sources.get(name, 0) >= seq:
                continue
            if state.now < until:
                waiting.append(until)
            else:
                missing = True
                await self._append(partition, state, ContestClosed(key, seq, name))
        if not missing:
            await self._settle(contest, min(waiting, default=None))

    async def _void_marks(self, contest: Contest, states: Sequence[ClosingState]) -> None:
        """Each mark makes an end of some of what waits, so that no call of the fold is long; the last voids."""
        mark = ContestReopened(contest.key, contest.reopened, REOPENS_AT_ONCE)
        for partition, state in enumerate(states):
            if state.reopened < contest.reopened:
                count = min(state.waiting // REOPENS_AT_ONCE + 1, MOST_REOPENING)
                await self._append(partition, state, mark, count)

    async def _append(self, partition: int, state: ClosingState, mark: Mark, count: int = 1) -> None:
        """Unless it is on its way. Behind a shut gate the view may lack what its log holds already."""
        sent = self._sent.get((partition, mark))
        if state.open and (sent is None or sent.offset < state.folded):
            value = vote_codec.encode(mark)
            landed = await asyncio.gather(
                *(self._log.append(self._topic.name, partition, value) for _ in range(count))
            )
            at = asyncio.get_running_loop().time()
            self._sent[partition, mark] = _Sent(at, max(one.offset for one in landed))

    async def _settle(self, contest: Contest, due: int | None) -> None:
        await self._catalogue.settle(contest.account, contest.key, contest.version, due)


def _now() -> int:
    return time.time_ns() // 1000


@contextmanager
def _logged(what: str) -> Iterator[None]:
    """Whatever goes wrong is tried again at the next turn."""
    try:
        yield
    except (LogUnavailable, ViewsUnavailable) as error:
        logger.warning("%s has to wait: %s", what, error)
    except Exception:
        logger.exception("%s could not be done", what)
