"""Process manager of purchases: casts bought votes, and takes back refunded ones.

It processes the open purchases of the purchases view, and appends their outcome to the log. A crash, or a second
manager of the same purchase, repeats steps that take effect once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final, NamedTuple

from libs.contracts.purchase_events import Purchase, PurchaseEvent, PurchaseStatus, purchases_codec
from libs.contracts.topics import Topic
from libs.kafka.writer import LogWriter
from libs.purchases.encryption import SecretLost
from libs.tally.errors import TallyError, ViewsUnavailable
from libs.telemetry.metrics import PURCHASES_SET_ASIDE
from libs.views.purchases.purchase_views import PurchaseViews, Unreadable

POLL_S: Final = 0.2
PAGE: Final = 64
AT_ONCE: Final = 64
"""Purchases processed concurrently."""
FOLD_S: Final = 2.0
"""Seconds for an appended outcome to be folded; then the step is repeated, without effect."""
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
DRAIN_S: Final = 5.0

logger = logging.getLogger(__name__)

Name = tuple[str, str]
"""Account and key."""


class _Rest(NamedTuple):
    """A backoff of a purchase `until` a loop time, unless its status changes; doubled each time."""

    until: float
    pause_s: float


class PurchaseManager:
    """Processes the partitions that this projector folds; a slow or failing purchase delays no other."""

    def __init__(
        self,
        topic: Topic,
        views: PurchaseViews,
        log: LogWriter,
        take_step: Callable[[Purchase], Awaitable[PurchaseEvent]],
        assigned: Callable[[], Collection[int]],
    ) -> None:
        self._topic = topic
        self._views = views
        self._log = log
        self._take_step = take_step
        self._assigned = assigned
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[Name, asyncio.Task[None]] = {}
        self._rests: dict[tuple[Name, PurchaseStatus], _Rest] = {}
        self._cursors: dict[int, int] = {}
        self._aside: dict[int, dict[Name, str]] = {}
        """Purchases set aside with their reasons, by partition."""
        self._reported: set[int] = set()
        """Assigned partitions, whose number of purchases set aside is in the metrics."""
        self._seen: dict[int, set[Name]] = {}
        """Purchases found by the current pass, by partition."""

    async def run(self) -> None:
        """Run until cancelled, then finish running steps; retries unavailable servers later."""
        try:
            while True:
                now = asyncio.get_running_loop().time()
                self._rests = {work: rest for work, rest in self._rests.items() if rest.until + rest.pause_s > now}
                assigned = self._assigned()
                self._follow(assigned)
                with_work = await self._views.with_open(assigned) | self._unfinished()
                more = await asyncio.gather(*(self._look(each) for each in with_work.intersection(assigned)))
                await asyncio.sleep(0 if any(more) else POLL_S)
        finally:
            if self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=DRAIN_S)

    def _unfinished(self) -> set[int]:
        """Return the partitions in the middle of a pass, and those to count again: some were set aside."""
        return {partition for partition, cursor in self._cursors.items() if cursor >= 0} | self._aside.keys()

    def _follow(self, assigned: Collection[int]) -> None:
        """Report 0 purchases set aside for new partitions, and forget those of the others."""
        for partition in self._reported.symmetric_difference(assigned):
            self._aside.pop(partition, None)
            PURCHASES_SET_ASIDE.labels(partition).set(0)
        self._reported = set(assigned)

    async def _look(self, partition: int) -> bool:
        """Start the next page's purchases; return whether there may be more."""
        try:
            page = await self._views.todo(partition, self._cursors.get(partition, -1), PAGE)
        except ViewsUnavailable as error:
            logger.warning("open purchases of %s/%d cannot be read: %s", self._topic.name, partition, error)
            return False
        except Exception:
            logger.exception("the open purchases of %s/%d cannot be read", self._topic.name, partition)
            return False
        now, began = asyncio.get_running_loop().time(), False
        for _, purchase in page:
            name = purchase.account, purchase.key
            if isinstance(purchase, Unreadable):
                self._set_aside(partition, name, f"it cannot be read: {purchase.reason}")
                continue
            rest = self._rests.get((name, purchase.status))
            if name not in self._tasks and (rest is None or rest.until < now):
                await self._slots.acquire()
                self._tasks[name] = asyncio.create_task(self._attend(partition, name, purchase))
                began = True
        full = len(page) == PAGE
        self._count_aside(partition, {(one.account, one.key) for _, one in page}, is_last=not full)
        self._cursors[partition] = page[-1].offset if full else -1
        return full and began

    async def _attend(self, partition: int, name: Name, purchase: Purchase) -> None:
        try:
            event = await self._take_step(purchase)
            await self._log.append(
                self._topic.name, partition, purchases_codec.encode(event), purchase.key.encode()
            )
        except SecretLost as error:
            self._set_aside(partition, name, str(error))
            self._pause(name, purchase.status)
        except TallyError as error:
            level = logging.DEBUG if (name, purchase.status) in self._rests else logging.WARNING
            logger.log(level, "purchase %s of %s is undecided: %s", purchase.key, purchase.account, error)
            self._pause(name, purchase.status)
        except Exception as error:
            logger.exception("processing purchase %s of %s failed", purchase.key, purchase.account)
            self._set_aside(partition, name, repr(error))
            self._pause(name, purchase.status)
        else:
            self._take_up(partition, name)
            self._rest(name, purchase.status, FOLD_S, 0)
        finally:
            del self._tasks[name]
            self._slots.release()

    def _set_aside(self, partition: int, name: Name, reason: str) -> None:
        """Count a failing purchase until a retry succeeds; log it once per reason."""
        aside = self._aside.setdefault(partition, {})
        if aside.get(name) != reason:
            logger.error("purchase %s of %s is set aside: %s", name[1], name[0], reason)
        aside[name] = reason

    def _count_aside(self, partition: int, names: set[Name], *, is_last: bool) -> None:
        """After a pass's last page, remove purchases that are no longer open."""
        seen = self._seen.setdefault(partition, set())
        seen |= names
        if is_last:
            aside = self._aside.pop(partition, {})
            left = {name: reason for name, reason in aside.items() if name in seen}
            if left:
                self._aside[partition] = left
            PURCHASES_SET_ASIDE.labels(partition).set(len(left))
            seen.clear()

    def _take_up(self, partition: int, name: Name) -> None:
        self._aside.get(partition, {}).pop(name, None)

    def _pause(self, name: Name, status: PurchaseStatus) -> None:
        former = self._rests.get((name, status))
        pause_s = FIRST_PAUSE_S if former is None else min(2 * former.pause_s, LONGEST_PAUSE_S)
        self._rest(name, status, pause_s, pause_s)

    def _rest(self, name: Name, status: PurchaseStatus, seconds: float, pause_s: float) -> None:
        self._rests[name, status] = _Rest(asyncio.get_running_loop().time() + seconds, pause_s)
