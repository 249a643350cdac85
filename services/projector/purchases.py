"""The process manager of purchases: casts the votes that were bought, and takes back those that were refunded.

It works off what the view of the purchases log says is still to be done, and says in the log what became of it.
A crash anywhere, or a second manager at the same purchase, repeats steps that take effect once: a purchase has one
vote id. A refusal is recorded first, and then the vote id is used up, so that a slow attempt cannot cast it later.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from libs.casting.casting import Caster
from libs.casting.removing import Remover
from libs.contracts.purchases import (
    Purchase,
    PurchaseCast,
    PurchaseEvent,
    PurchaseRefused,
    PurchaseStatus,
    PurchaseTakenBack,
    purchases_codec,
)
from libs.contracts.topics import Topic
from libs.kafka.writer import LogWriter
from libs.purchases.vault import Vaults
from libs.purchases.votes import paid_vote
from libs.tally.commands import CastVote
from libs.tally.errors import NotFound, TallyError, ViewsUnavailable
from libs.views.purchases import PurchaseViews

POLL_S: Final = 0.2
PAGE: Final = 64
AT_ONCE: Final = 64
"""Purchases worked on at a time, each of its own."""
FOLD_S: Final = 2.0
"""By when the fold has seen what was recorded of a purchase; else that is done again, to no effect."""
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
DRAIN_S: Final = 5.0

UNDECIDED: Final = frozenset(
    {"log_unavailable", "views_unavailable", "ledger_catching_up", "overloaded", "gone", "internal_error"}
)
"""Codes that decide nothing about a purchase. A secret that is gone may be a wrong setting."""

logger = logging.getLogger(__name__)

Name = tuple[str, str]
"""Account and key."""


@dataclass(frozen=True, slots=True)
class Steps:
    """The one next step of a purchase.

    `catalogue_is_folded` tells whether the catalogue's views have come to the catalogue log's end as of the call.
    """

    caster: Caster
    remover: Remover
    vaults: Vaults
    catalogue_is_folded: Callable[[], Awaitable[bool]]

    async def take(self, purchase: Purchase) -> PurchaseEvent:
        """What became of it. Raises a `TallyError` of the codes in `UNDECIDED`."""
        casts = purchase.status is PurchaseStatus.RECORDED
        step = self._cast if casts else self._take_back
        try:
            try:
                return await step(purchase)
            except NotFound:
                # a refusal is for good, and an emptied catalogue view knows no contest yet
                if not await self.catalogue_is_folded():
                    raise ViewsUnavailable("The catalogue's views are behind.", retry_after_s=1) from None
                return await step(purchase)
        except TallyError as error:
            if error.code in UNDECIDED:
                raise
            if casts:
                return PurchaseRefused(**_of(purchase), code=error.code, reason=error.message)
            # the contest is no more, and its votes with it
            return PurchaseTakenBack(**_of(purchase))

    async def _cast(self, purchase: Purchase) -> PurchaseEvent:
        [outcome] = await self.caster.cast(purchase.account, [await self._vote(purchase)])
        if isinstance(outcome, TallyError):
            raise outcome
        return PurchaseCast(**_of(purchase), accepted_at=outcome.accepted_at)

    async def _take_back(self, purchase: Purchase) -> PurchaseEvent:
        await self.remover.refund(await self._vote(purchase))
        return PurchaseTakenBack(**_of(purchase))

    async def _vote(self, purchase: Purchase) -> CastVote:
        assert purchase.recorded is not None
        assert purchase.recorded.vote is not None, "only purchases of votes are to be worked off"
        identity = (await self.vaults.of(purchase.account)).unseal(purchase.key, purchase.recorded.sealed)
        vote = purchase.recorded.vote
        secret = await self.caster.contests.secret(purchase.account, vote.contest_key)
        return paid_vote(vote, identity, secret)


class _Rest(NamedTuple):
    """A purchase is left alone `until` then (loop time), the next time for twice as long if it comes soon."""

    until: float
    pause_s: float


class PurchaseManager:
    """Works off the partitions that this projector folds; a slow or failing purchase holds back no other."""

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
        self._rests: dict[Name, _Rest] = {}
        self._cursors: dict[int, int] = {}

    async def run(self) -> None:
        """Work until cancelled, then end what is under way; a server that is away is asked again later."""
        try:
            while True:
                now = asyncio.get_running_loop().time()
                self._rests = {name: rest for name, rest in self._rests.items() if rest.until + rest.pause_s > now}
                more = await asyncio.gather(*(self._look(partition) for partition in self._assigned()))
                await asyncio.sleep(0 if any(more) else POLL_S)
        finally:
            if self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=DRAIN_S)

    async def _look(self, partition: int) -> bool:
        """Begin what the next page holds; whether there may be more behind it."""
        try:
            page = await self._views.todo(partition, self._cursors.get(partition, -1), PAGE)
        except ViewsUnavailable as error:
            logger.warning("what is to be done of %s/%d cannot be read: %s", self._topic.name, partition, error)
            return False
        now = asyncio.get_running_loop().time()
        for _, purchase in page:
            name = purchase.account, purchase.key
            rest = self._rests.get(name)
            if name not in self._tasks and (rest is None or rest.until < now):
                await self._slots.acquire()
                self._tasks[name] = asyncio.create_task(self._attend(partition, name, purchase))
        full = len(page) == PAGE
        self._cursors[partition] = page[-1].offset if full else -1
        return full

    async def _attend(self, partition: int, name: Name, purchase: Purchase) -> None:
        try:
            event = await self._take_step(purchase)
            await self._log.append(
                self._topic.name, partition, purchases_codec.encode(event), purchase.key.encode()
            )
        except TallyError as error:
            logger.warning("purchase %s of %s is undecided: %s", purchase.key, purchase.account, error)
            self._pause(name)
        except Exception:
            logger.exception("working on purchase %s of %s failed", purchase.key, purchase.account)
            self._pause(name)
        else:
            self._rest(name, FOLD_S, 0)
        finally:
            del self._tasks[name]
            self._slots.release()

    def _pause(self, name: Name) -> None:
        former = self._rests.get(name)
        pause_s = FIRST_PAUSE_S if former is None else min(2 * former.pause_s, LONGEST_PAUSE_S)
        self._rest(name, pause_s, pause_s)

    def _rest(self, name: Name, seconds: float, pause_s: float) -> None:
        self._rests[name] = _Rest(asyncio.get_running_loop().time() + seconds, pause_s)


def _of(purchase: Purchase) -> dict[str, Any]:
    return {"account": purchase.account, "key": purchase.key, "at": time.time_ns() // 1000}
