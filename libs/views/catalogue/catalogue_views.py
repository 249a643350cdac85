"""Views of the catalogue: written by one atomic Valkey function, each read by one call."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, Final, Literal

import msgpack
from msgspec import convert

from libs.contracts.catalogue_events import (
    ApiKey,
    ApiKeys,
    CatalogueEvent,
    ContestClosing,
    ContestRecords,
    ContestRestored,
    KeyIssued,
    Outcome,
    OutcomeKind,
    RecordDeleted,
    Stored,
)
from libs.contracts.codec import Undecodable
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import CATALOGUE_PARTITIONS, catalogue_topic
from libs.tally.errors import ViewsUnavailable
from libs.views.generations.fresh_reader import FreshReader
from libs.views.generations.generations import apply, item_of
from libs.views.valkey.client import Valkey
from libs.views.valkey.function_libraries import call_function, read_function
from libs.views.valkey.hash_tags import key_base
from libs.views.valkey.partition_reads import Mark, PartitionReads

Order = Literal["created", "updated", "running_number", "sort_key"]
Entry = tuple[LogRecord, CatalogueEvent | Undecodable]


PAGE = 250
"""Maximum number of participants and of vote sources of a contest read by one call, and about that of API keys."""
DELETED_CONTESTS: Final = "deleted_contests"
"""Resource of deleted contests; `updated` is the time of the deletion."""
ATTEMPTS = 3
"""Attempts to read a contest or a page of which records are deleted during the read, or API keys that change."""
STORED_SIZE = 7
"""Number of values per written record in a packed outcome: the members of `Stored`."""


class _ContestPages:
    """Pages of the function `catalogue_contest`: participants, then vote sources."""

    def __init__(self) -> None:
        self.ends: list[int | str] = ["-inf", "-inf"]
        self._records: tuple[dict[str, Stored], dict[str, Stored]] = {}, {}
        self._swaps = set[int]()
        self._last: list[Any] = []

    def add(self, reply: list[Any]) -> int:
        """Add a page, and return the number of records in the longer of its lists; `PAGE` if some are unread."""
        self._last = reply
        self._swaps.add(reply[1])
        for at, flat in enumerate(reply[4::2]):
            page = _many(flat)
            self._records[at].update((record.key, record) for record in page)
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
        )


class CatalogueViews:
    """The catalogue of one environment (`namespace`). The account's name determines its records' partition.

    Every method raises `ViewsUnavailable` if Valkey is unavailable; reads of records, keys and outcomes also while
    the view is not fresh (`libs/views/generations/fresh_reader.py`). So no read misses an acknowledged write.
    """

    def __init__(self, valkey: Valkey, namespace: str, generation: int | None = None) -> None:
        """With a `generation`, `position` and `apply` use that one; all other methods use the live one."""
        self._valkey = valkey
        self._namespace = namespace
        self._generation = generation
        self._topic = catalogue_topic(namespace)
        self.fresh = FreshReader(valkey, "catalogue", self._base)
        self.live = PartitionReads(valkey, "catalogue", self._base)

    async def position(self, partition: int) -> Position | None:
        """Return the position up to which `partition` is folded; None if nothing is."""
        generation = "" if self._generation is None else self._generation
        log, offset, *_ = await read_function(
            self._valkey, "catalogue_position", self._base(partition), generation
        )
        return _position(log, offset)

    async def mark(self, partition: int) -> Mark:
        """Return a mark of the partition's content: equal marks mean equal content."""
        return Mark(*await self.fresh.read_at("mark", partition))

    async def apply(self, partition: int, start: Position, entries: Sequence[Entry], end: int) -> None:
        """Fold entries, see `generations.apply`."""
        items = msgpack.packb([_item(record, event) for record, event in entries])
        base, generation = self._base(partition), self._generation
        await apply(self._valkey, "catalogue", base, start, end, items, generation)
        if entries and isinstance(entries[-1][1], RecordDeleted | ContestRestored):
            # removes the record's children, which readers no longer receive, or settles their references
            start = Position(start.log_id, end)
            await apply(self._valkey, "catalogue", base, start, end, msgpack.packb([]), generation)

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
    ) -> list[Stored]:
        """Return up to `limit` records by `order`, after the place `after`, "" for the first ones.

        By `created` or `updated` newest first, at or after `since`: the place is that time (us). By
        `running_number` ascending: the place is `created`. By `sort_key` ascending: the place is the sort key, NUL
        and the key.
        """
        asked = account, resource, parent, order, after, "-inf" if since is None else since, limit
        for _ in range(ATTEMPTS):
            flat = await self.fresh.read("page", self._partition(account), *asked)
            found = _many(flat) + await self.records(account, resource, _unread(flat))
            if len(found) == len(flat) // 2:
                return found
        raise ViewsUnavailable("The list keeps changing while it is read; retry shortly.", retry_after_s=1)

    async def records(self, account: str, resource: str, keys: Sequence[str]) -> list[Stored]:
        """Return those records that exist, in short calls."""
        found: list[Stored] = []
        for first in range(0, len(keys), PAGE):
            unread = keys[first : first + PAGE]
            while unread:
                flat = await self.fresh.read("records", self._partition(account), account, resource, *unread)
                found += _many(flat)
                unread = _unread(flat)
        return found

    async def contest_config(self, account: str, contest: str) -> ContestRecords:
        """Return the contest, its participants and vote sources in the order of creation, and their version.

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
        flat = await self.fresh.read("due", partition, most)
        return [(account.decode(), key.decode()) for account, key in zip(flat[::2], flat[1::2], strict=True)]

    async def settle(self, account: str, contest: str, version: int, due: int | None) -> None:
        """Make a due contest due again at `due` (us; None: never), unless it has changed since `version`."""
        partition, next_due = self._partition(account), "" if due is None else due
        await call_function(
            self._valkey, "catalogue_settle", self._base(partition), account, contest, version, next_due
        )

    async def outcomes(self, partition: int, command_ids: Sequence[str]) -> list[Outcome | None]:
        """Return the outcome of each command (at most 4,000); None if not folded within 24 h of log time."""
        replies = await self.fresh.read("outcomes", partition, *command_ids)
        return [_outcome(packed) if packed else None for packed in replies]

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
                rows |= {key_id: _key_row(key_id, row) for key_id, row in zip(flat[::2], flat[1::2], strict=True)}
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
        return bool(await self.fresh.read("referred", self._partition(account), account, resource, key, *by))

    def _partition(self, account: str) -> int:
        return self._topic.partition_of(account)

    def _base(self, partition: int) -> str:
        return key_base(self._namespace, "catalogue", partition, CATALOGUE_PARTITIONS)


def _item(record: LogRecord, event: CatalogueEvent | Undecodable) -> dict[str, Any]:
    """Return an event's members by their names, for the function, and what it needs besides."""
    item = item_of(record, event)
    match event:
        case ContestRestored() | ContestClosing():
            item |= {"resource": "contests", "key": event.contest}
        case KeyIssued() if event.rules.expires is not None:
            item["rules"]["expires"] = str(event.rules.expires)  # exact beyond 2^53
    return item


def _position(log: bytes, offset: bytes) -> Position | None:
    return Position(log.decode(), int(offset)) if log else None


def _stored(key: bytes, packed: bytes) -> Stored:
    version, created, updated, number, _, parent, _, _, record, _ = msgpack.unpackb(packed)
    return Stored(key.decode(), version, created, updated, number, parent, record)


def _many(flat: Sequence[bytes]) -> list[Stored]:
    return [_stored(key, packed) for key, packed in zip(flat[::2], flat[1::2], strict=True) if packed]


def _unread(flat: Sequence[bytes]) -> list[str]:
    """Return the keys of the records that were left out of a reply for its size."""
    return [key.decode() for key, packed in zip(flat[::2], flat[1::2], strict=True) if not packed]


def _outcome(packed: bytes) -> Outcome:
    kind, offset, content, named, *rest = msgpack.unpackb(packed)
    refs = tuple(zip(named[::2], named[1::2], strict=True)) if named else ()
    written = tuple(Stored(*rest[at : at + STORED_SIZE]) for at in range(0, len(rest), STORED_SIZE))
    return Outcome(OutcomeKind(kind), offset, content, written, refs)


def _key_row(key_id: bytes, packed: bytes) -> ApiKey:
    found = msgpack.unpackb(packed) | {"key_id": key_id.decode()}
    ancestors = [{"rate": None} | ancestor for ancestor in found["ancestors"]]  # Lua drops what is None
    return convert(found | {"ancestors": ancestors}, ApiKey, strict=False)
