"""In-memory cache of contests in a worker that casts votes; `reserve` rejects a stale configuration."""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final

from libs.concurrency.tasks import SingleFlight
from libs.tally.contest import Contest
from libs.tally.errors import NotFound, SecretErased, ViewsUnavailable

MOST_CONTESTS: Final = 10_000
RECENT_S = 2.0
"""Maximum age of a cached secret when voters' pseudonyms are computed, without a check of the contest's record."""
LOAD_REST: Final = 1.0
"""Pause after a load, in multiples of its duration: so loads of one contest use at most half of a process's time.
A contest with 10,000 participants takes 23 ms."""

Loader = Callable[[str, str], Awaitable[Contest | None]]
"""Loads a contest of an account from the catalogue view; None when there is none."""
VersionLoader = Callable[[str, str], Awaitable[int | None]]
"""Reads the version of the contest's own record, without its participants; None when there is none."""
SecretLoader = Callable[[str], Awaitable[bytes]]
"""Loads the contest's secret, or creates it. Raises `SecretErased` if the erasure mark is stored in its place."""
Place = tuple[str, str]
"""Account and contest key."""


@dataclass(frozen=True, slots=True)
class Known:
    """A contest and its secret as of `checked_at` (monotonic time). `secret` is None if the contest is erased."""

    contest: Contest
    secret: bytes | None
    checked_at: float


@dataclass(slots=True)
class _Entry:
    known: Known | None = None
    loads: SingleFlight[Known] = field(init=False)
    checks: SingleFlight[Known] = field(init=False)


class ContestCache:
    """LRU cache of configurations and secrets by account and contest key.

    Per contest, at most one load is in progress and at most one is queued, regardless of the number of callers.
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
        """Return the cached contest, or load it. Raises `NotFound`, `SecretErased` and `ViewsUnavailable`."""
        entry = self._entry((account, key))
        return (entry.known or await entry.loads.current()).contest

    async def reload(self, account: str, key: str, at_least: int | None = None) -> Contest:
        """Load the contest from the catalogue view, no earlier than this call.

        With `at_least`, a cached contest or a load in progress of this configuration version or later suffices.
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
        """Return the secret that voters' pseudonyms are computed with. Raises `NotFound` and `SecretErased`.

        A secret destroyed more than `RECENT_S` ago is never returned. Only the contest's record, or the erasure
        mark stored in the secret's place, marks it as erased: both are cached and dropped together.
        """
        entry = self._entry((account, key))
        known = entry.known or await entry.loads.current()
        if time.monotonic() - known.checked_at > RECENT_S:
            known = await self._entry((account, key)).checks.current()
        if known.secret is None:
            raise SecretErased(key)
        return known.secret

    async def current(self, account: str, key: str) -> Contest:
        """Return the contest after checking its record's version by one small read. Raises as `get`.

        A deletion is noticed at once; changes of participants alone are not.
        """
        place = account, key
        if self._entry(place).known is None:
            return await self.get(account, key)
        return (await self._entry(place).checks.next()).contest

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
        """Load the contest again if its record has changed; an unavailable view changes nothing."""
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
            raise NotFound(f"Contest {place[1]} not found.")
        secret = None
        if not contest.is_erased:
            secret = (former and former.secret) or await self._load_secret(contest.key)
        return Known(contest, secret, now)
