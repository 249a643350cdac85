"""Contests held in memory by a worker that casts votes; `reserve` proves that what it judged by is fresh."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping

from libs.casting.waiting import POLL_S
from libs.tally.admission import Stale
from libs.tally.contest import Contest
from libs.tally.errors import NotFound, ViewsUnavailable
from libs.views.votes import VoteViews

MOST_CONTESTS = 10_000

Loader = Callable[[str, str], Awaitable[Contest | None]]
"""Loads a contest of an account from the catalogue view; None when there is none."""
SecretLoader = Callable[[str], Awaitable[bytes]]
"""The contest's secret, made when there is none yet."""


class Contests:
    """Configuration and secret by (account, contest key), loaded once for all who ask at the same time."""

    def __init__(self, load: Loader, load_secret: SecretLoader) -> None:
        self._load = load
        self._load_secret = load_secret
        self._contests: OrderedDict[tuple[str, str], Contest] = OrderedDict()
        self._secrets: dict[str, bytes] = {}
        self._loading: dict[tuple[str, str], asyncio.Task[Contest]] = {}

    async def get(self, account: str, key: str) -> Contest:
        """The contest as last loaded. Raises `NotFound`, and what the views raise when they are away."""
        contest = self._contests.get((account, key))
        return contest if contest is not None else await self.reload(account, key)

    async def reload(self, account: str, key: str) -> Contest:
        """The contest as the catalogue view holds it now, or a moment later.

        Shared only until the load departs: one that is under way may have read what was in force before.
        """
        task = self._loading.get((account, key))
        if task is None:
            task = self._loading[account, key] = asyncio.ensure_future(self._fetch(account, key))
        return await asyncio.shield(task)

    async def secret(self, account: str, key: str) -> bytes:
        """What voters of this contest are named by. Raises `NotFound`."""
        await self.get(account, key)
        return self._secrets[key]

    async def _fetch(self, account: str, key: str) -> Contest:
        del self._loading[account, key]
        contest = await self._load(account, key)
        if contest is None:
            self._contests.pop((account, key), None)
            raise NotFound(f"There is no contest {key}.")
        if key not in self._secrets:
            self._secrets[key] = await self._load_secret(key)
        self._contests[account, key] = contest
        self._contests.move_to_end((account, key))
        if len(self._contests) > MOST_CONTESTS:
            (_, oldest), _ = self._contests.popitem(last=False)
            self._secrets.pop(oldest, None)
        return contest


async def refresh(
    views: VoteViews,
    contests: Contests,
    account: str,
    before: Contest,
    stale: Mapping[int, Stale],
    deadline: float,
) -> None:
    """Load the contest again, and put its version in force where none is. `stale` are answers by partition."""
    if asyncio.get_running_loop().time() > deadline:
        raise ViewsUnavailable("The contest's configuration keeps changing.", retry_after_s=1)
    fresh = await contests.reload(account, before.key)
    older = [
        views.raise_config(partition, before.key, fresh.version, answer.incarnation)
        for partition, answer in stale.items()
        if answer.in_force is None or answer.in_force < fresh.version
    ]
    if older:
        await asyncio.gather(*older)
    if fresh.version == before.version or len(older) < len(stale):
        await asyncio.sleep(POLL_S)  # the projector is about to fold what is in force already
