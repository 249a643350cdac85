"""Process manager of paid votes that stop counting: it puts their purchases on the refund list.

Paid votes do not count while their participant is rejected, or after it or its contest was deleted. The manager
compares the purchases with the records at intervals, so a crash loses no change, and repeats have no effect.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from libs.catalogue.contests.contest_mapper import load_contest
from libs.concurrency.tasks import every, loop_time
from libs.contracts.purchase_events import PurchaseCountedAgain, PurchaseUncounted, Refusal, purchases_codec
from libs.contracts.topics import Topic
from libs.kafka.writer import LogWriter
from libs.tally.contest import Contest
from libs.tally.errors import RECOVERING, ViewsUnavailable
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.purchases.purchase_views import PaidChoice, PurchaseViews

PASS_S: Final = 1.0
REST: Final = 10
"""Pause after a pass, in multiples of its duration."""
LONGEST_REST_S: Final = 20.0
"""Longest pause: a pass of a projector that was frozen meanwhile says nothing about the next one."""
PAGE: Final = 200


class CountingManager:
    """Compares the purchases of the partitions that this projector folds."""

    def __init__(
        self,
        topic: Topic,
        purchases: PurchaseViews,
        catalogue: CatalogueViews,
        log: LogWriter,
        catalogue_is_folded: Callable[[str], Awaitable[bool]],
        assigned: Callable[[], Collection[int]],
    ) -> None:
        """`catalogue_is_folded(account)`: its views have reached their log's end as of the call."""
        self._topic = topic
        self._purchases = purchases
        self._catalogue = catalogue
        self._log = log
        self._catalogue_is_folded = catalogue_is_folded
        self._assigned = assigned

    async def run(self) -> None:
        """Run until cancelled; retries unavailable servers at the next pass."""
        what = "paid votes cannot be compared with their participants"
        await every(PASS_S, lambda: [what], self._compare, what)

    async def _compare(self, _: str) -> None:
        began = loop_time()
        contests: dict[tuple[str, str], Contest | None] = {}
        for partition in sorted(await self._purchases.with_bought(self._assigned())):
            for choice, has_cast, has_uncounted in await self._purchases.choices(partition):
                place = choice.account, choice.contest
                if place not in contests:
                    contests[place] = await self._contest(*place)
                refusal = _refusal(contests[place], choice)
                if refusal is not None and has_cast:
                    await self._uncount(partition, choice, refusal)
                if refusal is None and has_uncounted:
                    await self._count_again(partition, choice)
        await asyncio.sleep(rest_s(loop_time() - began))

    async def _contest(self, account: str, key: str) -> Contest | None:
        """Return the contest, or None if it was deleted: a view that lags behind may not have it yet."""
        contest = await load_contest(self._catalogue, account, key)
        if contest is None:
            if not await self._catalogue_is_folded(account):
                raise ViewsUnavailable(RECOVERING, retry_after_s=1, cause="the catalogue's view lags behind")
            contest = await load_contest(self._catalogue, account, key)
        return contest

    async def _uncount(self, partition: int, choice: PaidChoice, refusal: Refusal) -> None:
        for key in await self._purchases.keys_of(partition, choice, "cast", PAGE):
            await self._append(partition, PurchaseUncounted(**_of(choice, key), **refusal._asdict()))

    async def _count_again(self, partition: int, choice: PaidChoice) -> None:
        for key in await self._purchases.keys_of(partition, choice, "uncounted", PAGE):
            await self._append(partition, PurchaseCountedAgain(**_of(choice, key)))

    async def _append(self, partition: int, event: PurchaseUncounted | PurchaseCountedAgain) -> None:
        await self._log.append(self._topic.name, partition, purchases_codec.encode(event), event.key.encode())


def rest_s(pass_s: float) -> float:
    """Return the pause after a pass that took so many seconds."""
    return min(REST * pass_s, LONGEST_REST_S)


def _refusal(contest: Contest | None, choice: PaidChoice) -> Refusal | None:
    """Return the reason for which votes for `choice` do not count, or None if they count."""
    if contest is None:
        return Refusal("not_found", f"Contest {choice.contest} was deleted.")
    status = contest.participants.get(choice.participant)
    if status is None:
        return Refusal("not_found", f"Participant {choice.participant} was deleted.")
    if status != "approved":
        return Refusal("participant_not_votable", f"Participant {choice.participant} is {status}.")
    return None


def _of(choice: PaidChoice, key: str) -> dict[str, Any]:
    return {"account": choice.account, "key": key, "at": time.time_ns() // 1000}
