"""Views of the catalogue: written by one atomic Valkey function, each read by one call."""

import asyncio
from collections.abc import Collection, Sequence
from math import inf
from typing import Any, Literal

from libs.contracts.catalogue_events import (
    ApiKey,
    ApiKeys,
    CatalogueEvent,
    ContestRecords,
    Outcome,
    Stored,
)
from libs.contracts.codec import Undecodable
from libs.contracts.log_records import LogRecord
from libs.contracts.topics import CATALOGUE_PARTITIONS, catalogue_topic
from libs.tally.errors import ViewsUnavailable
from libs.views.catalogue.catalogue_fold import CatalogueFold, decode_key, decode_outcome
from libs.views.catalogue.stored_records import (
    Size,
    account_size,
    contest_size,
    decode_record,
    list_of,
    size_of,
)
from libs.views.generations.computed_fold import ComputedViews, parts_of
from libs.views.generations.generations import Generations
from libs.views.valkey.client import Valkey
from libs.views.valkey.function_libraries import call_function
from libs.views.valkey.partition_reads import Mark

Order = Literal["created", "updated", "running_number", "sort_key"]
Entry = tuple[LogRecord, CatalogueEvent | Undecodable]


PAGE = 250
"""Maximum number of participants and of vote sources of a contest read by one call, and about that of API keys."""
FREE_FORM = "data"
"""Member of participants that is left out of a contest's records."""
ATTEMPTS = 3
"""Attempts to read a contest or a page of which records are deleted during the read, or API keys that change."""


class _ContestPages:
    """Pages of the function `catalogue_contest`: participants, then vote sources."""

    def __init__(self) -> None:
        self.ends: list[int | str] = ["-inf", "-inf"]
        self._records: tuple[dict[str, Stored], dict[str, Stored]] = {}, {}
        self._shortened = set[str]()
        self._swaps = set[int]()
        self._last: list[Any] = []

    def add(self, reply: list[Any]) -> int:
        """Add a page, and return the number of records in the longer of its lists; `PAGE` if some are unread."""
        self._last = reply
        self._swaps.add(reply[1])
        for at, flat in enumerate(reply[4::2]):
            page = _many(flat)
            for record in page:
                short = record.without(FREE_FORM)
                self._records[at][record.key] = short
                if short is not record:
                    self._shortened.add(record.key)
            if page:
                self.ends[at] = page[-1].updated
        return max(PAGE if _unread(flat) else len(flat) // 2 for flat in reply[4::2])

    @property
    def is_complete(self) -> bool:
        """True if nothing was deleted while the pages were read, and the view was not swapped."""
        return len(self._swaps) == 1 and [len(records) for records in self._records] == self._last[5::2]

    def config(self, contest: str, as_of: int) -> ContestRecords:
        version, _, envelope, show = self._last[:4]
        participants, sources = (
            sorted(all_of.values(), key=lambda record: record.created) for all_of in self._records
        )
        return ContestRecords(
            version=int(version) if version else None,
            contest=_stored(contest.encode(), envelope) if envelope else None,
            participants=tuple(participants) if envelope else (),
            sources=tuple(sources) if envelope else (),
            show=_stored(contest.encode(), show) if show else None,
            as_of=as_of,
            shortened=frozenset(self._shortened),
        )


class CatalogueViews(ComputedViews[CatalogueEvent]):
    """The catalogue of one environment (`namespace`). The account's name determines its records' partition.

    Every method raises `ViewsUnavailable` if Valkey is unavailable; reads of records, keys and outcomes also while
    the view is not fresh (`libs/views/generations/fresh_reader.py`). So no read misses an acknowledged write.
    """

    def __init__(self, valkey: Valkey, namespace: str, generation: int | None = None) -> None:
        self._topic = catalogue_topic(namespace)
        super().__init__(Generations(valkey, namespace, "catalogue", self._topic), CatalogueFold, generation)

    async def mark(self, partition: int) -> Mark:
        """Return a mark of the partition's content: equal marks mean equal content."""
        return Mark(*await self.fresh.read_at("mark", partition))

    async def get(self, account: str, resource: str, key: str) -> Stored | None:
        packed = await self.fresh.read("get", self._partition(account), account, resource, key)
        return None if packed is None else _stored(key.encode(), packed)

    async def page(
        self,
        account: str,
        resource: str,
        *,
        parent: str = "",
        order: Order = "created",
        after: int | str = "",
        since: int | None = None,
        limit: int,
        most_bytes: float = inf,
    ) -> list[Stored]:
        """Return up to `limit` records by `order`, after the place `after`, "" for the first ones.

        After more than `most_bytes`, though never after one record, the others are left out.
        By `created` or `updated` newest first, at or after `since`: the place is that time (us). By
        `running_number` ascending: the place is `created`. By `sort_key` ascending: the place is the sort key, NUL
        and the key.
        """
        name, *page = _range(order, after, "-inf" if since is None else since)
        places = list_of(name, account, resource, parent)
        for _ in range(ATTEMPTS):
            flat = await self.fresh.read(
                "page", self._partition(account), account, resource, places, *page, "LIMIT", 0, limit
            )
            found = _many(flat)
            left = await self._read_on(account, resource, _unread(flat), found, most_bytes)
            if len(found) + len(left) == len(flat) // 2:
                return found
        raise ViewsUnavailable("The list keeps changing while it is read; retry shortly.", retry_after_s=1)

    async def records(
        self, account: str, resource: str, keys: Sequence[str], most_bytes: float = inf
    ) -> list[Stored]:
        """Return those records that exist, in short calls; after `most_bytes` the others are left out."""
        found: list[Stored] = []
        await self._read_on(account, resource, keys, found, most_bytes)
        return found

    async def _read_on(
        self, account: str, resource: str, keys: Sequence[str], found: list[Stored], most_bytes: float = inf
    ) -> Sequence[str]:
        """Add records to `found`, up to more than one and `most_bytes`; return the keys that are left."""
        while keys and (len(found) < 2 or sum(len(each.record) for each in found) <= most_bytes):
            flat = await self.fresh.read("records", self._partition(account), account, resource, *keys[:PAGE])
            found += _many(flat)
            keys = [*_unread(flat), *keys[PAGE:]]
        return keys

    async def contest_config(self, account: str, contest: str) -> ContestRecords:
        """Return the contest, its participants and vote sources in the order of creation, and their version.

        Participants are without their free-form `data`, with which `records` returns them.
        Reads in short calls, records by their last change, including those changed during the read.
        So all is as of the last call, unless one was deleted meanwhile, which their number shows.
        """
        for _ in range(ATTEMPTS):
            pages = _ContestPages()
            while True:
                place = contest, PAGE, *pages.ends
                position, reply = await self.fresh.read_at("contest", self._partition(account), account, *place)
                if pages.add(reply) < PAGE:
                    break
            if pages.is_complete:
                return pages.config(contest, position.offset)
        raise ViewsUnavailable("The contest keeps changing while it is read; retry shortly.", retry_after_s=1)

    async def due(self, partition: int, most: int) -> list[tuple[str, str]]:
        """Return account and key of the partition's contests that are due by Valkey's clock, longest due first."""
        return [parts_of(name) for name in await self.fresh.read("due", partition, most)]

    async def settle(self, account: str, contest: str, version: int, due: int | None) -> None:
        """Make a due contest due again at `due` (us; None: never), unless it has changed since `version`."""
        partition, next_due = self._partition(account), "" if due is None else due
        base = self.generations.base(partition)
        await call_function(self.generations.valkey, "catalogue_settle", base, account, contest, version, next_due)

    async def sizes(self, account: str, contest: str | None = None) -> tuple[Size, Size]:
        """Return the size of all that an account has stored, and of a contest with the records under it."""
        places = [account_size(account), *([contest_size(account, contest)] if contest is not None else [])]
        partition = self._partition(account)
        found = await asyncio.gather(*(self.fresh.view(partition, "HGET", *place) for place in places))
        return size_of(found[0]), size_of(found[1] if contest is not None else None)

    async def outcomes(self, partition: int, command_ids: Sequence[str]) -> list[Outcome | None]:
        """Return the outcome of each command (at most 4,000); None if not folded within 24 h of log time."""
        replies = await self.fresh.view(partition, "HMGET", "outcomes", *command_ids)
        return [decode_outcome(packed).outcome if packed else None for packed in replies]

    async def keys(self, partition: int, known_version: str) -> ApiKeys:
        """Return the API keys of a partition, unless their version is `known_version`; read in short calls."""
        for _ in range(ATTEMPTS):
            rows: dict[bytes, ApiKey] = {}
            versions, cursor = set[bytes](), b"0"
            while len(versions) < 2:
                version, changed, cursor, *flat = await self.fresh.read(
                    "keys", partition, known_version, cursor, PAGE
                )
                if not changed:
                    return ApiKeys(version.decode(), None)
                versions.add(version)
                rows |= {key_id: decode_key(row) for key_id, row in zip(flat[::2], flat[1::2], strict=True)}
                if cursor == b"0":
                    break
            if len(versions) == 1:
                return ApiKeys(version.decode(), tuple(rows.values()))
        raise ViewsUnavailable("The API keys keep changing while they are read; retry shortly.", retry_after_s=1)

    async def find_owner(self, resource: str, key: str) -> str | None:
        """Return the account that owns a record with a server-assigned key, by reading every partition."""
        owners = await asyncio.gather(
            *(self.fresh.read("owner", p, resource, key) for p in range(CATALOGUE_PARTITIONS))
        )
        return next((owner.decode() for owner in owners if owner is not None), None)

    async def is_referred(self, account: str, resource: str, key: str, by: Collection[str]) -> bool:
        """Return whether a record of one of the resources `by` refers to this one firmly."""
        referrers = f"referrers:{account}:{resource}:{key}"
        found = await asyncio.gather(
            *(
                self.fresh.view(
                    self._partition(account), "ZRANGEBYLEX", referrers, f"[{kind}\0", f"({kind}\1", "LIMIT", 0, 1
                )
                for kind in by
            )
        )
        return any(found)

    def _partition(self, account: str) -> int:
        return self._topic.partition_of(account)


def _range(order: Order, after: int | str, since: int | str) -> tuple[str, *tuple[int | str, ...]]:
    """Return the list that a page is of, and the arguments of ZRANGE from its place on."""
    match order:
        case "running_number":  # numbers grow with the time of creation
            return "created", "-inf" if after == "" else f"({after}", "+inf", "BYSCORE"
        case "sort_key":
            return "sorted", "-" if after == "" else f"({after}", "+", "BYLEX"
        case _:
            return order, "+inf" if after == "" else f"({after}", since, "BYSCORE", "REV"


def _stored(key: bytes, packed: bytes) -> Stored:
    return decode_record(packed).stored(key.decode())


def _many(flat: Sequence[bytes]) -> list[Stored]:
    return [_stored(key, packed) for key, packed in zip(flat[::2], flat[1::2], strict=True) if packed]


def _unread(flat: Sequence[bytes]) -> list[str]:
    """Return the keys of the records that were left out of a reply for its size."""
    return [key.decode() for key, packed in zip(flat[::2], flat[1::2], strict=True) if not packed]
