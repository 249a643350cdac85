"""Views of the purchases: written by one atomic Valkey function, read by one call per partition."""

import asyncio
from collections.abc import Collection
from heapq import nlargest
from typing import Literal, NamedTuple

from libs.contracts.codec import Undecodable
from libs.contracts.log_records import LogRecord
from libs.contracts.purchase_events import Purchase, PurchasePlace, PurchasesEvent
from libs.contracts.topics import Topic
from libs.views.generations.computed_fold import REASON_SIZE, ComputedViews, parts_of
from libs.views.generations.generations import Generations
from libs.views.purchases.purchase_fold import PurchaseViewFold, decode
from libs.views.valkey.client import Valkey
from libs.views.valkey.watched_reads import WatchedReads

Entry = tuple[LogRecord, PurchasesEvent | Undecodable]

MOST_LISTED = 200


class Unreadable(NamedTuple):
    """A stored purchase that this code cannot decode."""

    account: str
    key: str
    reason: str


class Todo(NamedTuple):
    """A purchase whose votes have to be cast or removed, since the event at `offset`."""

    offset: int
    purchase: Purchase | Unreadable


class Listed(NamedTuple):
    """A purchase in a list, with its place there, which is set also for one that cannot be decoded."""

    place: PurchasePlace
    purchase: Purchase | Unreadable


class PaidChoice(NamedTuple):
    """A participant for whom paid votes were cast; some of the votes may not count any more."""

    account: str
    contest: str
    participant: str


class Bought(NamedTuple):
    """A choice, and whether some of its purchases count, and some stopped counting."""

    choice: PaidChoice
    has_cast: bool
    has_uncounted: bool


class PurchaseViews(ComputedViews[PurchasesEvent]):
    """The purchases of a namespace. A purchase's key determines its partition; a user's purchases are in several.

    Every method raises `ViewsUnavailable` if Valkey is unavailable; those that read purchases also while the view
    is not fresh (`libs/views/generations/fresh_reader.py`).
    """

    def __init__(self, valkey: Valkey, namespace: str, topic: Topic, generation: int | None = None) -> None:
        self._topic = topic
        super().__init__(Generations(valkey, namespace, "purchases", topic), PurchaseViewFold, generation)
        self._open = WatchedReads(self.live, "with_open", "views", bool, _has_none)
        self._bought = WatchedReads(self.live, "with_bought", "views", bool, _has_none)

    async def get(self, account: str, key: str) -> Purchase | Unreadable | None:
        packed = await self.fresh.view(self._topic.partition_of(key), "HGET", f"records:{account}", key)
        return None if packed is None else _readable(account, key, packed)

    async def of_user(self, account: str, user: str, before: PurchasePlace | None, limit: int) -> list[Listed]:
        """Return up to `limit` (at most 200) purchases of a user's pseudonym before `before`, latest first."""
        return await self._list(f"users:{account}:{user}", account, before, limit)

    async def refused(self, account: str, before: PurchasePlace | None, limit: int) -> list[Listed]:
        """Return up to `limit` (at most 200) purchases of the refund list before `before`, latest first."""
        return await self._list(f"refused:{account}", account, before, limit)

    async def todo(self, partition: int, after: int, limit: int) -> list[Todo]:
        """Return up to `limit` open purchases with offsets greater than `after`, in log order."""
        page = f"({after}", "+inf", "BYSCORE", "LIMIT", 0, limit, "WITHSCORES"
        flat = await self.fresh.read("list", partition, "", "todo", *page)
        return [
            Todo(int(offset), _readable(*parts_of(name), packed))
            for offset, name, packed in zip(*(flat[at::3] for at in range(3)), strict=True)
        ]

    async def with_open(self, partitions: Collection[int]) -> set[int]:
        """Return the partitions with open purchases, and those that cannot be read together with others."""
        return await _watched(self._open, partitions)

    async def with_bought(self, partitions: Collection[int]) -> set[int]:
        """Return the partitions with cast purchases, and those that cannot be read together with others."""
        return await _watched(self._bought, partitions)

    async def choices(self, partition: int) -> list[Bought]:
        """Return the participants for whom the partition's purchases were cast, each once; read in short calls."""
        cursor, found = b"0", dict[bytes, tuple[bool, bool]]()
        while True:
            cursor, *page = await self.fresh.read("bought", partition, cursor, MOST_LISTED)
            found |= {
                name: (bool(has_cast), bool(has_uncounted))
                for name, has_cast, has_uncounted in zip(page[::3], page[1::3], page[2::3], strict=True)
                if has_cast or has_uncounted
            }
            if cursor == b"0":
                return [Bought(PaidChoice(*name.decode().split("\0")), *found[name]) for name in sorted(found)]

    async def keys_of(
        self, partition: int, choice: PaidChoice, status: Literal["cast", "uncounted"], limit: int
    ) -> list[str]:
        """Return the keys of up to `limit` purchases for `choice` of this status, in log order."""
        found = await self.fresh.view(partition, "ZRANGE", f"{status}:" + "\0".join(choice), 0, limit - 1)
        return [key.decode() for key in found]

    async def _list(self, name: str, account: str, before: PurchasePlace | None, limit: int) -> list[Listed]:
        """Merge the partitions' lists, newest first; within a partition times are distinct."""
        latest: int | str = "+inf" if before is None else before.at
        page = latest, "-inf", "BYSCORE", "REV", "LIMIT", 0, min(limit, MOST_LISTED) + 1, "WITHSCORES"
        pages = await asyncio.gather(
            *(self.fresh.read("list", partition, account, name, *page) for partition in self._topic.numbers)
        )
        found = [
            (PurchasePlace(int(moment), key.decode()), packed)
            for flat in pages
            for moment, key, packed in zip(*(flat[at::3] for at in range(3)), strict=True)
        ]
        older = [one for one in found if before is None or one[0] < before]
        newest = nlargest(limit, older, key=lambda one: one[0])
        return [Listed(place, _readable(account, place.key, packed)) for place, packed in newest]


async def _watched(reads: WatchedReads[bool], partitions: Collection[int]) -> set[int]:
    found = await asyncio.gather(*map(reads.read, reads.groups(partitions)))
    return {partition for replies in found for partition, reply in replies.items() if reply is not False}


def _has_none(reply: bool) -> float | None:
    return 0.0 if reply else None


def _readable(account: str, key: str, packed: bytes) -> Purchase | Unreadable:
    """Decode a purchase; an error of one purchase must not stop the others."""
    try:
        return decode(packed)
    except Exception as error:
        return Unreadable(account, key, repr(error)[:REASON_SIZE])
