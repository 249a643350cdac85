"""Contests held in memory by a worker that casts votes; `reserve` proves that what it judged by is fresh."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from libs.concurrency.single_flight import SingleFlight
from libs.tally.contest import Contest
from libs.tally.errors import NotFound, SecretErased, ViewsUnavailable
from libs.tally.reservations import Stale
from libs.views.freshness import RECOVERING
from libs.views.votes import VoteViews
from libs.voting.timeouts import POLL_S

MOST_CONTESTS: Final = 10_000
RECENT_S = 2.0
"""How old what is known of a contest may be where voters are named."""
LOAD_REST: Final = 1.0
"""Loads of one contest take half of a process's time at most: one with 10,000 participants holds it for 23 ms."""

Loader = Callable[[str, str], Awaitable[Contest | None]]
"""Loads a contest of an account from the catalogue view; None when there is none."""
VersionLoader = Callable[[str, str], Awaitable[int | None]]
"""The version that the contest's own record is at: a small read. None when there is none."""
SecretLoader = Callable[[str], Awaitable[bytes]]
"""The contest's secret, made when there is none yet. Raises `SecretErased` where its mark is in its place."""
Place = tuple[str, str]
"""Account and contest key."""


@dataclass(frozen=True, slots=True)
class Known:
    """A contest and its secret as of `checked_at` (monotonic time). No secret: its record says erased."""

    contest: Contest
    secret: bytes | None
    checked_at: float


@dataclass(slots=True)
class _Entry:
    known: Known | None = None
    loads: SingleFlight[Known] = field(init=False)
    checks: SingleFlight[Known] = field(init=False)


class ContestCache:
    """Configuration and secret by account and contest key, for as long as they are among the latest used.

    However many ask: of one contest one load is under way, and one at most is queued behind it.
    """

    def __init__(
        self,
        load: Loader,
        load_version: VersionLoader,
        load_secret: SecretLoader,
        most_contests: int = MOST_CONTESTS,
    ) -> None:
        self._load = load
        self._load_version = load_version
        self._load_secret = load_secret
        self._most_contests = most_contests
        self._entries: OrderedDict[Place, _Entry] = OrderedDict()

    async def get(self, account: str, key: str) -> Contest:
        """The contest as last loaded. Raises `NotFound`, and what the views raise when they are away."""
        return (await self._last((account, key))).contest

    async def reload(self, account: str, key: str, at_least: int | None = None) -> Contest:
        """The contest as the catalogue view holds it now, or a moment later.

        With `at_least` any load will do that gives this configuration version or a later one, the last one too.
        Raises as `get`.
        """
        entry = self._entry((account, key))
        if at_least is not None:
            if entry.known is not None and entry.known.contest.version >= at_least:
                return entry.known.contest
            known = await entry.loads.current()
            if known.contest.version >= at_least:
                return known.contest
        return (await entry.loads.next()).contest

    async def secret(self, account: str, key: str) -> bytes:
        """What voters of this contest are named by. Raises `NotFound`, and `SecretErased`.

        One that was destroyed `RECENT_S` ago is not given any more. Erased is only what the contest's record, or
        the mark in the secret's place, says: contest and secret are remembered, and forgotten, as one.
        """
        known = await self._last((account, key))
        if time.monotonic() - known.checked_at > RECENT_S:
            known = await self._entry((account, key)).checks.current()
        if known.secret is None:
            raise SecretErased(key)
        return known.secret

    async def current(self, account: str, key: str) -> Contest:
        """The contest with its record as of now, for one small read. Raises as `get`: at once when it is deleted.

        A participant's change alone is not looked for.
        """
        place = account, key
        if self._entry(place).known is None:
            return await self.get(account, key)
        return (await self._entry(place).checks.next()).contest

    async def _last(self, place: Place) -> Known:
        entry = self._entry(place)
        return entry.known or await entry.loads.current()

    def _entry(self, place: Place) -> _Entry:
        entry = self._entries.get(place)
        if entry is None:
            entry = self._entries[place] = _Entry()
            entry.loads = SingleFlight(lambda: self._fetch(place, entry), rest=LOAD_REST)
            entry.checks = SingleFlight(lambda: self._check(place, entry))
            if len(self._entries) > self._most_contests:
                self._entries.popitem(last=False)
        else:
            self._entries.move_to_end(place)
        return entry

    async def _check(self, place: Place, entry: _Entry) -> Known:
        """The contest, loaded again where its record has changed; a view that is away changes nothing."""
        known, now = entry.known, time.monotonic()
        if known is None:
            return await entry.loads.current()
        try:
            version = await self._load_version(*place)
            if version is None or version > known.contest.version:
                return await entry.loads.next()
        except ViewsUnavailable:
            return known
        entry.known = replace(entry.known or known, checked_at=now)
        return entry.known

    async def _fetch(self, place: Place, entry: _Entry) -> Known:
        try:
            entry.known = await self._read(place, entry.known)
        except (NotFound, SecretErased):
            entry.known = None
            raise
        finally:
            if entry.known is None and self._entries.get(place) is entry:
                del self._entries[place]
        return entry.known

    async def _read(self, place: Place, former: Known | None) -> Known:
        now = time.monotonic()
        contest = await self._load(*place)
        if contest is None:
            raise NotFound(f"There is no contest {place[1]}.")
        secret = None
        if not contest.is_erased:
            secret = (former and former.secret) or await self._load_secret(contest.key)
        return Known(contest, secret, now)


async def refresh(
    views: VoteViews,
    contests: ContestCache,
    account: str,
    before: Contest,
    stale: Mapping[int, Stale],
    deadline: float,
) -> Contest:
    """Load the contest again, and put its version in force where none is. `stale` are answers by partition.

    Where none is in force, the load begins after the answer, else any will do that gives the version in force. All
    who wait for that one to be folded share the loads, and ask the ledger again only then.
    Raises `ViewsUnavailable` past `deadline`, and at once where the account's catalogue is behind.
    """
    clock = asyncio.get_running_loop().time
    in_force = [answer.in_force for answer in stale.values()]
    known = [version for version in in_force if version is not None]
    at_least = max(known) if len(known) == len(in_force) else None
    while clock() <= deadline:
        fresh = await contests.reload(account, before.key, at_least)
        if fresh.version >= max(known, default=0):
            break
        await asyncio.sleep(POLL_S)  # the projector is about to fold what is in force already
    else:
        raise ViewsUnavailable("The contest's configuration keeps changing.", retry_after_s=1)
    older = [
        views.put_in_force(partition, fresh, answer.incarnation)
        for partition, answer in stale.items()
        if answer.in_force is None or answer.in_force < fresh.version
    ]
    if not all(await asyncio.gather(*older)):
        raise ViewsUnavailable(RECOVERING, retry_after_s=1)
    if fresh.version == before.version:
        await asyncio.sleep(POLL_S)  # the gate may have been shut meanwhile
    return fresh
