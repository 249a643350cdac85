"""Contests held in memory by a worker that casts votes; `reserve` proves that what it judged by is fresh."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping

from libs.casting.waiting import POLL_S
from libs.tally.admission import Stale
from libs.tally.contest import Contest
from libs.tally.errors import NotFound, SecretErased, ViewsUnavailable
from libs.views.votes import VoteViews

MOST_CONTESTS = 10_000
RECENT_S = 2.0
"""How old what is known of a contest may be where voters are named."""

Loader = Callable[[str, str], Awaitable[Contest | None]]
"""Loads a contest of an account from the catalogue view; None when there is none."""
VersionLoader = Callable[[str, str], Awaitable[int | None]]
"""The version that the contest's own record is at: a small read. None when there is none."""
SecretLoader = Callable[[str], Awaitable[bytes]]
"""The contest's secret, made when there is none yet."""


class Contests:
    """Configuration and secret by (account, contest key), loaded once for all who ask at the same time."""

    def __init__(self, load: Loader, load_version: VersionLoader, load_secret: SecretLoader) -> None:
        self._load = load
        self._load_version = load_version
        self._load_secret = load_secret
        self._contests: OrderedDict[tuple[str, str], Contest] = OrderedDict()
        self._seen_at: dict[tuple[str, str], float] = {}
        self._secrets: dict[str, bytes] = {}
        self._looking: dict[tuple[str, str], asyncio.Task[Contest]] = {}
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
        """What voters of this contest are named by. Raises `NotFound`, and `SecretErased`.

        One that was destroyed `RECENT_S` ago is not given any more.
        """
        contest = await self.get(account, key)
        if time.monotonic() - self._seen_at.get((account, key), 0.0) > RECENT_S:
            task = self._looking.get((account, key))
            if task is None:
                task = self._looking[account, key] = asyncio.ensure_future(self._look(account, key, contest))
            contest = await asyncio.shield(task)
        secret = None if contest.is_erased else self._secrets.get(key)
        if secret is None:
            raise SecretErased(key)
        return secret

    async def _look(self, account: str, key: str, known: Contest) -> Contest:
        """The contest, loaded again where its record has changed; a view that is away or empty changes nothing."""
        try:
            now, version = time.monotonic(), await self._load_version(account, key)
            if version is not None and version > known.version:
                return await self.reload(account, key)
            self._seen_at[account, key] = now
        except ViewsUnavailable:
            pass
        finally:
            del self._looking[account, key]
        return known

    async def _fetch(self, account: str, key: str) -> Contest:
        del self._loading[account, key]
        began = time.monotonic()
        contest = await self._load(account, key)
        if contest is None:
            self._contests.pop((account, key), None)
            self._seen_at.pop((account, key), None)
            raise NotFound(f"There is no contest {key}.")
        if contest.is_erased:
            self._secrets.pop(key, None)
        elif key not in self._secrets:
            self._secrets[key] = await self._load_secret(key)
        self._contests[account, key] = contest
        self._contests.move_to_end((account, key))
        self._seen_at[account, key] = began
        if len(self._contests) > MOST_CONTESTS:
            oldest, _ = self._contests.popitem(last=False)
            del self._seen_at[oldest]
            self._secrets.pop(oldest[1], None)
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
