"""The records of one partition of the catalogue: each in a hash, in lists, and under all that it refers to.

`catalogue/01_records.lua` lists what is stored.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from libs.contracts.catalogue_events import CatalogueEvent, Ref, Stored
from libs.views.generations.computed_fold import NUL, ComputedFold

DELETED_CONTESTS: Final = "deleted_contests"
"""Resource of deleted contests; `updated` is the time of the deletion."""


class StoredRecord(NamedTuple):
    """A stored record. Its parent is ("", "") at the top; `sort_key` "" leaves it out of that order."""

    version: int
    created: int
    updated: int
    number: int
    parent_resource: str
    parent: str
    refs: tuple[Ref, ...]
    offers: tuple[Ref, ...]
    record: str
    sort_key: str

    def stored(self, key: str) -> Stored:
        return Stored(key, self.version, self.created, self.updated, self.number, self.parent, self.record)


class Referrer(NamedTuple):
    """A record that refers to another, and its parent, without which it is deleted: a member of `referrers`."""

    resource: str
    key: str
    parent_resource: str
    parent: str

    @classmethod
    def of(cls, resource: str, key: str, record: StoredRecord) -> "Referrer":
        return cls(resource, key, record.parent_resource, record.parent)

    @property
    def name(self) -> str:
        return NUL.join(self)


class Size(NamedTuple):
    """The bytes of records as JSON, and their number."""

    json_bytes: int = 0
    records: int = 0


def size_of(stored: bytes | None) -> Size:
    return Size(*map(int, stored.split())) if stored else Size()


def account_size(account: str) -> tuple[str, str]:
    """Return the hash and field with the size of all that an account has stored."""
    return "sizes", account


def contest_size(account: str, contest: str) -> tuple[str, str]:
    """Return the hash and field with the size of a contest and its participants, vote sources, and others."""
    return f"contest_sizes:{account}", contest


encode = msgspec.msgpack.Encoder().encode
decode_record: Callable[[bytes], StoredRecord] = msgspec.msgpack.Decoder(StoredRecord).decode
NO_RECORD: Final = StoredRecord(0, 0, 0, 0, "", "", (), (), "", "")


class StoredRecords(ComputedFold[CatalogueEvent]):
    """Finds and replaces records of the generation that is folded."""

    async def put(
        self, account: str, resource: str, key: str, old: StoredRecord | None, new: StoredRecord | None
    ) -> None:
        """Replace a record, one of which may be none, in its hash, lists and all that leads to it."""
        record = new or old or NO_RECORD
        for order in ("created", "updated", "sorted"):
            places = list_of(order, account, resource, record.parent)
            before, after = (_place(one, key, order) for one in (old, new))
            if before and (after is None or after[1] != before[1]):
                self.write("ZREM", places, before[1])
            if after and after != before:
                self.write("ZADD", places, *after)
        owners = f"owners:{resource}"
        if old is None and await self.hget(owners, key) is None:
            self.hset(owners, key, account)
        if new is None and await self.hget(owners, key) == account.encode():
            self.hdel(owners, key)
        self._refer(account, resource, key, old, new)
        await self._count(account, resource, key, old, new)
        if new is not None:
            self.hset(records_of(account, resource), key, encode(new))
        else:
            self.hdel(records_of(account, resource), key)
            if resource == "contests":
                self.schedule(account, key, None)

    async def _count(
        self, account: str, resource: str, key: str, old: StoredRecord | None, new: StoredRecord | None
    ) -> None:
        """Add to the sizes of the account, and of the contest that the record belongs to."""
        record = new or old or NO_RECORD
        grown = sum(len(one.record.encode()) * sign for one, sign in ((new, 1), (old, -1)) if one is not None)
        counted = (new is not None) - (old is not None)
        contest = record.parent if record.parent_resource == "contests" else key
        places = [account_size(account)]
        if resource == "contests" or record.parent_resource == "contests":
            places.append(contest_size(account, contest))
        for place in places:
            held = size_of(await self.hget(*place))
            size = Size(held.json_bytes + grown, held.records + counted)
            if size.records:
                self.hset(*place, f"{size.json_bytes} {size.records}")
            else:
                self.hdel(*place)

    def _refer(
        self, account: str, resource: str, key: str, old: StoredRecord | None, new: StoredRecord | None
    ) -> None:
        """Write the references and the offered parts. Those of a deleted contest are not enforced."""
        before, after = (one or NO_RECORD if resource != DELETED_CONTESTS else NO_RECORD for one in (old, new))
        name = Referrer.of(resource, key, new or old or NO_RECORD).name
        for ref in gone(before.refs, after.refs):
            self.write("ZREM", referrers_of(account, ref), name)
        for ref in after.refs:
            self.write("ZADD", referrers_of(account, ref), 0, name)
        for offer in gone(before.offers, after.offers):
            self.hdel(f"offers:{account}", NUL.join(offer))
        for offer in after.offers:
            self.hset(f"offers:{account}", NUL.join(offer), 1)

    def schedule(self, account: str, contest: str, due: int | None) -> None:
        """Write when a contest is due next (us); None: never."""
        name = f"{account}{NUL}{contest}"
        if due is None:
            self.write("ZREM", "due", name)
        else:
            self.write("ZADD", "due", due, name)

    async def kinds_of(self, account: str, resource: str, keys: Iterable[str]) -> list[list[str]]:
        """Return the resources of each record's children."""
        found = await self.read_each("SMEMBERS", [kinds_under(account, resource, key) for key in keys])
        return [sorted(kind.decode() for kind in kinds) for kinds in found]

    async def find(self, account: str, resource: str, key: str) -> StoredRecord | None:
        packed = await self.hget(records_of(account, resource), key)
        return None if packed is None else decode_record(packed)

    async def is_there(self, account: str, record: StoredRecord | None) -> bool:
        """Return whether no parent of a record is deleted."""
        while record is not None and record.parent:
            record = await self.find(account, record.parent_resource, record.parent)
        return record is not None

    async def existing(self, account: str, refs: Sequence[Ref]) -> tuple[Ref, ...]:
        """Return those references whose record, or offered part, exists; all are read together."""
        places = [((records_of(account, ref[0]), ref[1]), (f"offers:{account}", NUL.join(ref))) for ref in refs]
        await self.load(*(field for pair in places for field in pair))
        return tuple(
            [
                ref
                for ref, pair in zip(refs, places, strict=True)
                if any([await self.hget(*field) is not None for field in pair])
            ]
        )


def gone(before: Iterable[Ref], after: Iterable[Ref]) -> list[Ref]:
    """Return the references, or offered parts, that were and are no longer, in their order."""
    kept = set(after)
    return [ref for ref in before if ref not in kept]


def _place(record: StoredRecord | None, key: str, order: str) -> tuple[int, str] | None:
    """Return score and member of a record in one of its lists, or None."""
    if record is None or (order == "sorted" and not record.sort_key):
        return None
    if order == "sorted":
        return 0, f"{record.sort_key}{NUL}{key}"
    return record.created if order == "created" else record.updated, key


def records_of(account: str, resource: str) -> str:
    return f"records:{account}:{resource}"


def list_of(order: str, account: str, resource: str, parent: str) -> str:
    return f"{order}:{account}:{resource}:{parent}"


def referrers_of(account: str, ref: Ref) -> str:
    return f"referrers:{account}:{ref[0]}:{ref[1]}"


def kinds_under(account: str, resource: str, key: str) -> str:
    """Return the set of the resources that have records under this one."""
    return f"kinds:{account}:{resource}:{key}"
