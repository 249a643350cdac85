"""The fold of one partition of the catalogue: judges each command, and writes its records, lists and outcome.

`catalogue/01_records.lua` lists what is stored. All that an event reads is read before it writes.

Records that are deleted with their parent are removed later, some at a time, between the events of all accounts.
Readers check that parents exist, so for them all disappear at once; so does what judges events here. An event that
could tell, by a key that is used again, waits for the removal (`_meets_doomed`). Children have no parts, and no
other record refers to them (`resource_definition.py`).
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NamedTuple

import msgspec

from libs.contracts.catalogue_events import (
    ApiKey,
    CatalogueCommand,
    CatalogueEvent,
    Command,
    ContestClosing,
    ContestRestored,
    KeyIssued,
    KeyRevoked,
    Outcome,
    OutcomeKind,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
    RecordsWritten,
    RecordWritten,
    Ref,
    Stored,
    Write,
    contests_of,
)
from libs.views.catalogue.stored_records import (
    DELETED_CONTESTS,
    NO_RECORD,
    Referrer,
    StoredRecord,
    StoredRecords,
    account_size,
    contest_size,
    encode,
    gone,
    kinds_under,
    list_of,
    records_of,
    referrers_of,
)
from libs.views.generations.computed_fold import NUL, Entries

KEPT_MS: Final = 24 * 3600 * 1000
"""Time for which the outcome of a command is kept, if its account does not give too many commands meanwhile."""
MOST_OUTCOMES: Final = 10_000
"""Maximum number of an account's outcomes: then each command forgets the oldest, whether it is refused or not."""
LISTED: Final = 100
"""Maximum number of referrers named for a record or part, and of all that an outcome names 100 more."""
REFERRERS: Final = 1_000
"""Referrers that are read together if some may be deleted."""
PAGE: Final = 50
"""Records of a deleted one that are removed by one call."""


class KeptOutcome(NamedTuple):
    """An outcome, the log's time (ms) at its command, and the number of the command in its account."""

    time: int
    account: str
    number: int
    outcome: Outcome


class OutcomeName(NamedTuple):
    """A member of `outcome_times`."""

    account: str
    number: int
    command_id: str


decode_key: Callable[[bytes], ApiKey] = msgspec.msgpack.Decoder(ApiKey).decode
decode_outcome: Callable[[bytes], KeptOutcome] = msgspec.msgpack.Decoder(KeptOutcome).decode


class Refused(Exception):
    """The command has no effect; `refs` as in `Outcome`."""

    def __init__(self, kind: OutcomeKind, *refs: Ref) -> None:
        super().__init__(kind)
        self.kind = kind
        self.refs = refs


@dataclass(slots=True)
class Writes:
    """The records that an event writes: references are checked against the state after it.

    `offered` are parts that they offer then, `lost` those that they offered until then.
    """

    before: dict[Ref, StoredRecord | None] = field(default_factory=dict)
    offered: set[Ref] = field(default_factory=set)
    lost: set[Ref] = field(default_factory=set)


class CatalogueFold(StoredRecords):
    """Folds the commands of accounts. `created` and `updated` strictly increase: they are a list's cursor."""

    async def begin(self, entries: Entries[CatalogueEvent]) -> None:
        """Remove some children of deleted records, read what most events need, and delete expired outcomes."""
        first = "-inf", str(self.time - KEPT_MS), "BYSCORE", "LIMIT", 0, 2 * len(entries)
        is_doomed, expired, _ = await asyncio.gather(
            self.read("EXISTS", "doomed"),
            self.read("ZRANGE", "outcome_times", *first),
            self.load(*(field for _, event in entries if isinstance(event, Command) for field in _read_by(event))),
        )
        self.is_work_left = is_doomed == 1
        await self._remove_some()
        expired = [member.decode() for member in expired]
        await self.load(*(("outcomes", _of(member).command_id) for member in expired))
        for member in expired:
            await self._forget_outcome(member)

    async def fold_event(self, event: Any, offset: int) -> None:
        if self.is_work_left and await self._meets_doomed(event):
            await self._remove_all()
        kept = await self.hget("outcomes", event.command_id)
        if kept is None or decode_outcome(kept).time <= self.time - KEPT_MS:
            try:
                records = await self._execute(event, offset)
                named = tuple(replace(record, record="") for record in records)
                outcome = Outcome(OutcomeKind.OK, offset, event.content, named)
            except Refused as refused:
                outcome = Outcome(refused.kind, offset, event.content, (), refused.refs)
            await self._keep_outcome(event, outcome)
        for contest in sorted(contests_of(event)):
            self.hset("config", contest, offset)
        if isinstance(event, ContestRestored):
            # by several calls: references that begin again can be told from those that did not yet
            self.write("HSET", "position", "time", self.time, "clock", self.clock)
            await self._remove_all()

    async def _keep_outcome(self, event: CatalogueCommand, outcome: Outcome) -> None:
        """Store an outcome in the place of the account's oldest one, if it has that many."""
        number = int(await self.hget("outcome_numbers", event.account) or 0)
        ring, place = f"outcome_ring:{event.account}", str(number % MOST_OUTCOMES)
        oldest = await self.hget(ring, place)
        if oldest is not None:
            await self._forget_outcome(oldest.decode())
        member = NUL.join((event.account, str(number), event.command_id))
        self.hset("outcomes", event.command_id, encode(KeptOutcome(self.time, event.account, number, outcome)))
        self.hset(ring, place, member)
        self.hset("outcome_numbers", event.account, number + 1)
        self.write("ZADD", "outcome_times", self.time, member)

    async def _forget_outcome(self, member: str) -> None:
        """Remove what is stored of an outcome; a later one of the same command stays."""
        of = _of(member)
        packed = await self.hget("outcomes", of.command_id)
        kept = None if packed is None else decode_outcome(packed)
        if kept is not None and (kept.account, kept.number) == (of.account, of.number):
            self.hdel("outcomes", of.command_id)
        self.hdel(f"outcome_ring:{of.account}", str(of.number % MOST_OUTCOMES))
        self.write("ZREM", "outcome_times", member)

    async def _execute(self, event: CatalogueCommand, offset: int) -> Sequence[Stored]:
        """Judge and execute a command; return the records that it leaves. Raises `Refused`."""
        match event:
            case RecordsWritten() | RecordCreated() | RecordChanged():
                return await self._write_records(event, _writes_of(event), offset)
            case RecordDeleted():
                await self._delete(event)
            case ContestClosing():
                return await self._close(event, offset)
            case ContestRestored():
                return await self._restore(event, offset)
            case KeyIssued():
                await self._issue(event, offset)
            case KeyRevoked():
                await self._revoke(event, offset)
        return ()

    def _tick(self, event: CatalogueCommand, changes: int = 1) -> int:
        """Return the time of an event's first change; each of them has one of its own."""
        now = self.next_moment(event.at)
        self.clock = now + changes - 1
        return now

    # writes

    async def _write_records(
        self, event: CatalogueCommand, writes: Sequence[Write], offset: int
    ) -> Sequence[Stored]:
        account, after = event.account, Writes()
        names = [(write.resource, write.key) for write in writes]
        await self.load(*((records_of(account, resource), key) for resource, key in names))
        for name, write in zip(names, writes, strict=True):
            if name in after.before:
                raise Refused(OutcomeKind.CONFLICT)
            old = after.before[name] = await self.find(account, *name)
            after.offered |= {*write.offers}
            after.lost |= {*(old.offers if old else ())}
        for write in writes:
            await self._judge(account, write, after)
        numbers, now, left = dict[tuple[str, str], int](), self._tick(event, len(writes)), []
        for at, write in enumerate(writes, now):
            old = after.before[write.resource, write.key]
            if old is None:
                old = await self._new(account, write, at, numbers)
            record = old._replace(
                version=offset, updated=at, refs=write.refs, offers=write.offers, record=write.record,
                sort_key=write.sort_key,
            )  # fmt: skip
            await self.put(account, write.resource, write.key, after.before[write.resource, write.key], record)
            if write.resource == "contests":
                self.schedule(account, write.key, write.due)
            left.append(record.stored(write.key))
        return left

    async def _judge(self, account: str, write: Write, after: Writes) -> None:
        old = after.before[write.resource, write.key]
        is_new = write.expected_version is None
        deleted = None
        if is_new and write.resource == "contests":
            deleted = await self.find(account, DELETED_CONTESTS, write.key)
        if is_new and (old is not None or deleted is not None):
            raise Refused(OutcomeKind.EXISTS)
        if not is_new and (old is None or not await self.is_there(account, old)):
            raise Refused(OutcomeKind.MISSING, (write.resource, write.key))
        if old and old.version != write.expected_version:
            raise Refused(OutcomeKind.CONFLICT)
        refs = [ref for ref in write.refs if ref not in after.before and ref not in after.offered]
        existing = set(await self.existing(account, refs))
        missing = [ref for ref in refs if ref in after.lost or ref not in existing]
        if is_new and write.parent is not None and not await self.find(account, *write.parent):
            missing.insert(0, write.parent)
        if missing:
            raise Refused(OutcomeKind.MISSING, *missing)
        await self._refuse_used(account, gone(old.offers, write.offers) if old else (), after.before)

    async def _refuse_used(self, account: str, targets: Iterable[Ref], but: Collection[Ref]) -> None:
        """Raise `Refused` if other records than those of `but` refer to one of `targets`."""
        users: list[Ref] = []
        for target in targets:
            users += [ref for ref in await self._users(account, target, LISTED + len(but)) if ref not in but]
        if users:
            raise Refused(OutcomeKind.IN_USE, *users[:LISTED])

    async def _users(self, account: str, target: Ref, most: int) -> list[Ref]:
        """Return up to so many records that refer to a target. Those that are to be removed cease to do so."""
        place, users = referrers_of(account, target), list[Ref]()
        page = REFERRERS if self.is_work_left else most
        while len(users) < most:
            names = await self.read("ZRANGE", place, len(users), len(users) + page - 1)
            found = [Referrer(*name.decode().split(NUL)) for name in names]
            deleted = await self._deleted_of(account, found) if self.is_work_left else ()
            users += [(one.resource, one.key) for one in found if one not in deleted]
            if deleted:
                self.write("ZREM", place, *(one.name for one in found if one in deleted))
            if len(names) < page:
                break
        return users[:most]

    async def _deleted_of(self, account: str, referrers: Sequence[Referrer]) -> Collection[Referrer]:
        """Return the referrers whose parent is deleted. Only parents are read, of which many have the same one."""
        parents = {(one.parent_resource, one.parent) for one in referrers if one.parent}
        await self.load(*((records_of(account, resource), key) for resource, key in sorted(parents)))
        deleted = {ref for ref in parents if not await self.is_there(account, await self.find(account, *ref))}
        return {one for one in referrers if (one.parent_resource, one.parent) in deleted}

    async def _new(self, account: str, write: Write, at: int, numbers: dict[tuple[str, str], int]) -> StoredRecord:
        if write.parent is None:
            return NO_RECORD._replace(created=at)
        resource, key = write.parent
        field = f"numbers:{account}:{write.resource}", key
        numbers[field] = numbers.get(field) or int(await self.hget(*field) or 0)
        numbers[field] += 1
        self.hset(*field, numbers[field])
        self.write("SADD", kinds_under(account, resource, key), write.resource)
        return NO_RECORD._replace(created=at, number=numbers[field], parent_resource=resource, parent=key)

    async def _close(self, event: ContestClosing, offset: int) -> Sequence[Stored]:
        old = await self.find(event.account, "contests", event.contest)
        if old is None:
            raise Refused(OutcomeKind.MISSING, ("contests", event.contest))
        if await self.hget("config", event.contest) != str(event.expected_config).encode():
            raise Refused(OutcomeKind.CONFLICT)
        closed = old._replace(version=offset, updated=self._tick(event), record=event.record)
        await self.put(event.account, "contests", event.contest, old, closed)
        return [closed.stored(event.contest)]

    # deletions

    async def _delete(self, event: RecordDeleted) -> None:
        """Delete a record. No other record refers to its children, or to its parts (`resource_definition.py`)."""
        account, resource, key = event.account, event.resource, event.key
        old = await self.find(account, resource, key)
        if old is None or not await self.is_there(account, old):
            raise Refused(OutcomeKind.MISSING, (resource, key))
        if event.expected_version is not None and old.version != event.expected_version:
            raise Refused(OutcomeKind.CONFLICT)
        if event.expected_parent is not None:
            above = await self.find(account, old.parent_resource, old.parent) if old.parent else None
            if above is None or above.version != event.expected_parent:
                raise Refused(OutcomeKind.CONFLICT)
        await self._refuse_used(account, [(resource, key)], [(resource, key)])
        parent = "contests" if resource == DELETED_CONTESTS else resource
        [kinds] = await self.kinds_of(account, parent, [key])
        now = self._tick(event)
        if resource != "contests":
            await self._remove(account, resource, key, old, kinds)
            return
        await self.put(account, resource, key, old, None)
        await self.put(account, DELETED_CONTESTS, key, None, old._replace(updated=now))
        self._doom(account, resource, key, kinds)

    async def _restore(self, event: ContestRestored, offset: int) -> Sequence[Stored]:
        account, key = event.account, event.contest
        old = await self.find(account, DELETED_CONTESTS, key)
        if old is None:
            raise Refused(OutcomeKind.MISSING, ("contests", key))
        [kinds] = await self.kinds_of(account, "contests", [key])
        refs = await self.existing(account, old.refs)
        restored = old._replace(version=offset, updated=self._tick(event), refs=refs)
        await self.put(account, DELETED_CONTESTS, key, old, None)
        await self.put(account, "contests", key, None, restored)
        self.schedule(account, key, event.due)
        self._doom(account, "contests", key, kinds)
        return [restored.stored(key)]

    async def _remove(
        self, account: str, resource: str, key: str, old: StoredRecord, kinds: Collection[str]
    ) -> None:
        """Remove a record; its children, of these kinds, follow some at a time."""
        parent = "contests" if resource == DELETED_CONTESTS else resource
        await self.put(account, resource, key, old, None)
        for kind in kinds:
            self.hdel(f"numbers:{account}:{kind}", key)
        self._doom(account, parent, key, kinds)
        if kinds:
            self.write("UNLINK", kinds_under(account, parent, key))

    def _doom(self, account: str, resource: str, key: str, kinds: Iterable[str]) -> None:
        """Note the lists of a record's children, which are to be removed, or whose references change."""
        for kind in kinds:
            self.write("ZADD", "doomed", 0, NUL.join((account, resource, kind, key)))
            self.is_work_left = True

    async def _meets_doomed(self, event: CatalogueCommand) -> bool:
        """Return whether an event uses a key of a record that is to be removed, or of its parent."""
        account, writes = event.account, _writes_of(event)
        if isinstance(event, ContestRestored | RecordDeleted):
            key = event.contest if isinstance(event, ContestRestored) else event.key
            return await self._is_parent_doomed(account, [key])
        if await self._is_parent_doomed(
            account, [write.key for write in writes if write.expected_version is None]
        ):
            return True
        used = {(account, ref) for write in writes for ref in write.refs}
        for write in writes:
            if write.expected_version is None:
                owner = await self.hget(f"owners:{write.resource}", write.key)
                owners = [account] if owner is None else [account, owner.decode()]
                used |= {(one, (write.resource, write.key)) for one in owners}
            if write.parent is not None:
                used.add((account, write.parent))
        for owner_of, ref in sorted(used):
            record = await self.find(owner_of, *ref)
            if record is not None and not await self.is_there(owner_of, record):
                return True
        return False

    async def _is_parent_doomed(self, account: str, keys: Collection[str]) -> bool:
        """Return whether children of one of these keys are still to be removed or settled."""
        if not keys:
            return False
        for name in await self.read("ZRANGE", "doomed", 0, -1):
            owner, _, _, parent = name.decode().split(NUL)
            if owner == account and parent in keys:
                return True
        return False

    async def _remove_all(self) -> None:
        while self.is_work_left:
            await self._remove_some()

    async def _remove_some(self) -> None:
        """Remove records that were deleted with their parent, a page of one list."""
        if not self.is_work_left:
            return
        first = await self.read("ZRANGE", "doomed", 0, 0, "WITHSCORES")
        self.forget()
        if first:
            await self._remove_children(first[0].decode(), int(first[1]))
        else:
            self.is_work_left = False

    async def _remove_children(self, doomed: str, settled: int) -> None:
        """Remove a page of a list, or settle its references: the contest of these was deleted or restored."""
        account, above, kind, parent = doomed.split(NUL)
        is_deleted = above == "contests" and await self.find(account, DELETED_CONTESTS, parent) is not None
        stays = is_deleted or await self.find(account, above, parent) is not None
        first = settled if stays else 0
        page = await self.read("ZRANGE", list_of("created", account, kind, parent), first, first + PAGE - 1)
        keys = [key.decode() for key in page]
        await self.load(*((name, key) for key in keys for name in (records_of(account, kind), f"owners:{kind}")))
        kinds = [] if stays else await self.kinds_of(account, kind, keys)
        children = [await self.find(account, kind, key) for key in keys]
        if stays and not is_deleted:  # read together what each one asks for
            await self.existing(account, [ref for child in children if child for ref in child.refs])
        for at, (key, child) in enumerate(zip(keys, children, strict=True)):
            if child is None:
                self.write("ZREM", list_of("created", account, kind, parent), key)
            elif stays:
                await self._settle(account, kind, key, child, is_deleted=is_deleted)
            else:
                await self._remove(account, kind, key, child, kinds[at])
        if len(keys) < PAGE:
            self.write("ZREM", "doomed", doomed)
        elif stays:
            self.write("ZADD", "doomed", first + len(keys), doomed)

    async def _settle(self, account: str, kind: str, key: str, child: StoredRecord, *, is_deleted: bool) -> None:
        """End a child's references with its deleted contest; those to existing records begin again with it."""
        name = Referrer.of(kind, key, child).name
        if is_deleted:
            for ref in child.refs:
                self.write("ZREM", referrers_of(account, ref), name)
            return
        kept = child._replace(refs=await self.existing(account, child.refs))
        for ref in kept.refs:
            self.write("ZADD", referrers_of(account, ref), 0, name)
        if kept != child:
            self.hset(records_of(account, kind), key, encode(kept))

    # API keys

    async def _issue(self, event: KeyIssued, offset: int) -> None:
        if await self.hget("keys", event.key_id) is not None:
            raise Refused(OutcomeKind.EXISTS)
        if event.ancestors and await self._key(event.account, event.ancestors[-1].key_id) is None:
            raise Refused(OutcomeKind.MISSING, ("keys", event.ancestors[-1].key_id))
        self._tick(event)
        for ancestor in event.ancestors:
            self.write("SADD", f"descendants:{ancestor.key_id}", event.key_id)
        members = event.permissions, event.at, event.rules, event.ancestors, event.command_id
        row = ApiKey(event.account, event.key_id, event.sha256, *members)
        self.hset("keys", event.key_id, encode(row))
        self.write("HSET", "position", "keys", offset)

    async def _revoke(self, event: KeyRevoked, offset: int) -> None:
        row = await self._key(event.account, event.key_id)
        if row is None:
            raise Refused(OutcomeKind.MISSING, ("keys", event.key_id))
        dropped = [row]
        if not event.keeps_descendants:
            names = sorted(name.decode() for name in await self.read("SMEMBERS", f"descendants:{event.key_id}"))
            await self.load(*(("keys", name) for name in names))
            dropped += [key for name in names if (key := await self._key(event.account, name)) is not None]
        self._tick(event)
        for key in dropped:
            for ancestor in key.ancestors:
                self.write("SREM", f"descendants:{ancestor.key_id}", key.key_id)
            self.write("UNLINK", f"descendants:{key.key_id}")
            self.hdel("keys", key.key_id)
        self.write("HSET", "position", "keys", offset)

    async def _key(self, account: str, key_id: str) -> ApiKey | None:
        packed = await self.hget("keys", key_id)
        row = None if packed is None else decode_key(packed)
        return row if row is not None and row.account == account else None


def _of(member: str) -> OutcomeName:
    account, number, command_id = member.split(NUL, 2)
    return OutcomeName(account, int(number), command_id)


def _writes_of(event: Command) -> Sequence[Write]:
    if isinstance(event, RecordsWritten):
        return event.writes
    if not isinstance(event, RecordWritten):
        return ()
    names = (member.name for member in fields(Write))
    return [Write(**{name: getattr(event, name) for name in names if hasattr(event, name)})]


def _read_by(event: Command) -> Iterator[tuple[str, str]]:
    """Yield fields that an event reads."""
    yield "outcomes", event.command_id
    yield "outcome_numbers", event.account
    yield account_size(event.account)
    for write in _writes_of(event):
        names = [(write.resource, write.key), *([write.parent] if write.parent else [])]
        yield from ((records_of(event.account, resource), key) for resource, key in names)
        yield f"owners:{write.resource}", write.key
        if write.contest is not None:
            yield contest_size(event.account, write.contest)
