"""Process manager of closings: ends contests, appends close markers to the log, and voids them on reopening.

A contest ends once the clocks of all partitions, and this process's, have passed its end: so correcting a wrong
clock cannot open it again.

The manager processes the contests that are due by the catalogue's views. Each step is visible in a view before
the next one. So after a crash, or with concurrent managers, repeated steps have no effect: a ContestClosing based
on an older configuration is refused, the first close marker of a closing counts, and a marker of a reopened
closing is void.

No marker overtakes an accepted vote. After the fold of ContestClosing, every partition refuses votes by an older
configuration. Votes admitted before are pending until their record is folded, or a fence ensures that it never
counts. A marker is appended when nothing is pending, so all that counts is before it. A late marker, of a manager
that was suspended, finds its closing marked or voided: after a reopening, a partition admits votes only once it
has folded the reopening, which voids all markers of the closing, also future ones.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

import orjson

from libs.catalogue.commands import CommandWriter
from libs.catalogue.contests.closing_record import Closing, closed, closing_of, title_of
from libs.catalogue.contests.contest_mapper import contest_of, sources_of
from libs.catalogue.contests.vote_sources import SourceConfig
from libs.catalogue.errors import RecordTooLarge
from libs.concurrency.tasks import every, loop_time
from libs.contracts.catalogue_events import ContestClosing
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Appender
from libs.contracts.topics import VotesLog, source_log_key
from libs.tally.contest import Contest
from libs.tally.errors import LogUnavailable, ViewsUnavailable
from libs.tally.events import Actor, ContestClosed, ContestReopened
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.votes.reply_types import ClosingState
from libs.views.votes.vote_views import VoteViews

POLL_S: Final = 0.5
PAGE: Final = 200
"""Due contests read per page, the longest due first."""
AT_ONCE: Final = 16
"""Contests processed concurrently."""
TOO_LARGE_US: Final = 30_000_000
"""Delay before the next attempt for a contest whose record is too small for the state frozen at its closing."""
AGAIN_S: Final = 5.0
"""Seconds after which an unfolded marker is appended again; it has no effect unless the first was lost."""
REOPENS_AT_ONCE: Final = 64
"""Waiting changes that one reopening marker resolves: half a `fold` call."""
MOST_REOPENING: Final = 200
"""Reopening markers in flight; more follow when those are folded."""

logger = logging.getLogger(__name__)

Mark = ContestClosed | ContestReopened


class _Sent(NamedTuple):
    """Append time (of the event loop's clock) and offset of a marker in flight."""

    at: float
    offset: int


def lacks_reopening(state: ClosingState, contest: Contest) -> bool:
    """Return whether the markers of a reopened closing are still in force in a partition."""
    return state.reopened < contest.reopened


def has_ended(end: int, states: Iterable[ClosingState], now: int) -> bool:
    """Return whether the clocks of all partitions, and this process's (`now`, us), have passed the end."""
    return all(clock >= end for clock in (now, *(state.now for state in states)))


def may_close(current: Contest, end: int) -> bool:
    """Return whether the contest, as read for its closing, still ends at `end` and is not closed."""
    return not current.closed and current.finishes == end


def may_mark(state: ClosingState) -> bool:
    """Return whether a partition, which admits no more votes of the contest, has none pending."""
    return state.pending == 0


def must_append(state: ClosingState, sent: _Sent | None) -> bool:
    """Return whether to append a marker: it is not in flight. While the gate is closed, the view may lag."""
    return state.open and (sent is None or sent.offset < state.folded)


def reports_until(closing: Closing, source: SourceConfig, grace_us: int) -> int:
    """Return the time (us) until which an external source of a closed contest may report."""
    until = closing.end + (0 if source.retired else grace_us)
    return until if closing.sources_until is None else min(until, closing.sources_until)


class ClosingManager:
    """Closes contests of the catalogue partitions that this projector folds."""

    def __init__(
        self,
        log_of_votes: VotesLog,
        catalogue: CatalogueViews,
        votes: VoteViews,
        log: Appender,
        writer: CommandWriter,
        assigned: Callable[[], Collection[int]],
        source_grace_s: float,
    ) -> None:
        """`writer` appends to the catalogue's log."""
        self._log_of_votes = log_of_votes
        self._catalogue = catalogue
        self._votes = votes
        self._log = log
        self._writer = writer
        self._assigned = assigned
        self._grace_us = int(source_grace_s * 1_000_000)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._sent: dict[tuple[int, Mark], _Sent] = {}

    async def run(self) -> None:
        """Run until cancelled; retries unavailable servers at the next poll."""
        await every(POLL_S, self._partitions, self._look, "which contests are due cannot be read")

    def _partitions(self) -> Collection[int]:
        """Return the partitions to look at, and forget the markers that may be appended again."""
        past = loop_time() - AGAIN_S
        self._sent = {mark: sent for mark, sent in self._sent.items() if sent.at > past}
        return self._assigned()

    async def _look(self, partition: int) -> None:
        due = await self._catalogue.due(partition, PAGE)
        await asyncio.gather(*(self._attend(account, key) for account, key in due))

    async def _attend(self, account: str, key: str) -> None:
        try:
            async with self._slots:
                await self._take_step(account, key)
        except (LogUnavailable, ViewsUnavailable) as error:
            logger.warning("contest %s of %s is postponed: %s", key, account, error)
        except Exception:
            logger.exception("contest %s of %s failed", key, account)

    async def _take_step(self, account: str, key: str) -> None:
        config = await self._catalogue.contest_config(account, key)
        contest = contest_of(account, config)
        if contest is None or config.contest is None:
            return  # just deleted
        numbers = self._log_of_votes.topic_from(contest.votes_from).numbers
        states = await self._votes.closings(numbers, contest.key)
        closing = closing_of(config.contest.document)
        if any(lacks_reopening(state, contest) for state in states.values()):
            await self._void_marks(contest, states)
        elif closing is not None:
            await self._mark(contest, closing, states)
        elif contest.finishes is not None and has_ended(contest.finishes, states.values(), _now()):
            await self._close(contest, contest.finishes)
        else:
            await self._settle(contest, contest.finishes)

    async def _close(self, contest: Contest, end: int) -> None:
        """Record the closing. It names the participants, unless it would not fit into a record."""
        try:
            try:
                await self._record_closing(contest, end, has_titles=True)
            except RecordTooLarge:
                await self._record_closing(contest, end, has_titles=False)
        except RecordTooLarge as error:
            logger.error("contest %s of %s cannot be closed: %s", contest.key, contest.account, error)
            await self._settle(contest, _now() + TOO_LARGE_US)  # lets all others go first

    async def _record_closing(self, contest: Contest, end: int, *, has_titles: bool) -> None:
        """Record the closing by the current records, unless the contest has another end by now."""
        async with self._writer.attempts(contest.account, "contests", contest.key) as attempts:
            async for head in attempts:
                config = await self._catalogue.contest_config(contest.account, contest.key)
                current = contest_of(contest.account, config)
                if config.contest is None or current is None or not may_close(current, end):
                    return
                titles = {each.key: title_of(each) for each in config.participants} if has_titles else {}
                document = closed(config.contest.document, current, titles, sources_of(config), end)
                command = ContestClosing(
                    **head,
                    contest=contest.key,
                    record=orjson.dumps(document).decode(),
                    expected_config=current.version,
                    actor=Actor("process", "projector", socket.gethostname()),
                )
                await attempts.append(command)

    async def _mark(self, contest: Contest, closing: Closing, states: Mapping[int, ClosingState]) -> None:
        """Append the due markers; done when all are folded, except those that may wait for a source."""
        key, seq = contest.key, closing.seq
        missing, waiting = False, []
        for partition, state in states.items():
            if state.closed < seq:
                missing = True
                if may_mark(state):
                    await self._append(partition, state, ContestClosed(key, seq))
        for name, source in closing.sources.items():
            topic = self._log_of_votes.topic_from(contest.votes_from)
            partition = topic.partition_of(source_log_key(key, name))
            state = states[partition]
            until = reports_until(closing, source, self._grace_us)
            if state.sources.get(name, 0) >= seq:
                continue
            if state.now < until:
                waiting.append(until)
            else:
                missing = True
                await self._append(partition, state, ContestClosed(key, seq, name))
        if not missing:
            await self._settle(contest, min(waiting, default=None))

    async def _void_marks(self, contest: Contest, states: Mapping[int, ClosingState]) -> None:
        """Append reopening markers: each resolves some waiting changes, to keep folds short; the last voids."""
        mark = ContestReopened(contest.key, contest.reopened, REOPENS_AT_ONCE)
        for partition, state in states.items():
            if lacks_reopening(state, contest):
                count = min(state.waiting // REOPENS_AT_ONCE + 1, MOST_REOPENING)
                await self._append(partition, state, mark, count)

    async def _append(self, partition: int, state: ClosingState, mark: Mark, count: int = 1) -> None:
        """Append a marker, `count` times."""
        if must_append(state, self._sent.get((partition, mark))):
            value = vote_codec.encode(mark)
            landed = await asyncio.gather(
                *(self._log.append(self._log_of_votes.name, partition, value) for _ in range(count))
            )
            self._sent[partition, mark] = _Sent(loop_time(), max(one.offset for one in landed))

    async def _settle(self, contest: Contest, due: int | None) -> None:
        await self._catalogue.settle(contest.account, contest.key, contest.version, due)


def _now() -> int:
    return time.time_ns() // 1000
