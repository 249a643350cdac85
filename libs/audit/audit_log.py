"""`tally log --audit`: lists who wrote to the logs and which commands operators ran, without the votes."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

import orjson

from libs.audit.partition_merge import ALL, MergedRecord, extents_between, in_order, streams
from libs.catalogue.resource_table import RESOURCES
from libs.contracts.catalogue_events import (
    CatalogueCommand,
    CatalogueEvent,
    ContestClosing,
    ContestRestored,
    KeyIssued,
    KeyRevoked,
    OperatorActed,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
    RecordsWritten,
    Write,
    catalogue_codec,
)
from libs.contracts.codec import Codec, Undecodable, vote_codec
from libs.contracts.purchase_events import (
    PurchaseRecorded,
    PurchaseRefunded,
    PurchasesEvent,
    PurchaseUpdated,
    purchases_codec,
)
from libs.contracts.topics import Log
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.tally.events import Actor, SourceReported, VoteRemoved
from libs.tally.events import Event as VotesEvent
from libs.tally.time_conversion import timestamp

OfPurchases = PurchaseRecorded | PurchaseUpdated | PurchaseRefunded
Audited = CatalogueCommand | OperatorActed | VoteRemoved | SourceReported | OfPurchases
ENTITLED: Final = frozenset({"contests", "participants"})
OWN_ACTIONS: Final = frozenset({"seal", "secret_erased"})
"""Server's members whose change is an operator's action that no event of its own records."""
OF_VOTES: Final = (b'"VoteRemoved"', b'"SourceReported"')
OF_PURCHASES: Final = (b'"PurchaseRecorded"', b'"PurchaseUpdated"', b'"PurchaseRefunded"')


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Filter by key id, account and append time in [since, until); None means all."""

    key: str | None = None
    account: str | None = None
    since_ms: int = 0
    until_ms: int | None = None

    def has(self, time_ms: int, actor: Actor | None, account: str | None) -> bool:
        if time_ms < self.since_ms:
            return False
        if self.key is not None and (actor is None or (actor.kind, actor.name) != ("key", self.key)):
            return False
        return self.account is None or account == self.account


@dataclass(frozen=True, slots=True)
class MemberChange:
    """A member of a record before and after a write: its dotted path, None where it was or is not set.

    `record` names the record where an event writes several, else it is "".
    """

    member: str
    old: Any
    new: Any
    record: str = ""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A write or an action: who did it, if known, the ids of the object, and the members that it changed.

    Members that only the server writes are left out.
    """

    time: str
    log: str
    partition: int
    offset: int
    actor: Actor | None
    action: str
    account: str | None
    subject: dict[str, str]
    changes: list[MemberChange] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Audit:
    """Builds audit rows from entries in the order of their append times.

    The votes log and operators' actions name no account: theirs is the contest's, else the one of the actor's key.
    """

    wanted: AuditFilter
    accounts: dict[str, str] = field(default_factory=dict)
    """Account by key id."""
    owners: dict[str, str] = field(default_factory=dict)
    """Account by key of a contest."""
    titles: dict[str, str] = field(default_factory=dict)
    """Titles of contests and participants, by key."""
    written: dict[tuple[str, str, str], dict[int, str]] = field(default_factory=dict)
    """Records by account, resource and key, and by version: the offset of the event that wrote them."""

    def row(self, entry: MergedRecord[Any]) -> AuditRow | None:
        event = _audited(entry.event)
        if event is None:
            return None
        if isinstance(event, KeyIssued):
            self.accounts[event.key_id] = event.account
        self.titles.update(_titles(event))
        contests = [write.key for write, _ in _writes(event) if write.resource == "contests"]
        self.owners.update(dict.fromkeys(contests, self._account(event) or ""))
        changes = list(self._changes(event, entry.record.offset))
        actor, account = event.actor, self._account(event)
        if not self.wanted.has(entry.record.timestamp_ms, actor, account):
            return None
        return AuditRow(
            time=timestamp(entry.record.timestamp_ms * 1000) or "",
            log=_log(event),
            partition=entry.partition,
            offset=entry.record.offset,
            actor=actor,
            action=event.action if isinstance(event, OperatorActed) else event.type,
            account=account,
            subject=self._entitled(_subject(event)),
            changes=changes,
        )

    def _changes(self, event: Audited, offset: int) -> Iterator[MemberChange]:
        """Yield the members that a write changes, compared with the version that it was made from."""
        if isinstance(event, ContestClosing):
            self.written.setdefault((event.account, "contests", event.contest), {})[offset] = event.record
        for write, expected in _writes(event):
            account = self._account(event) or ""
            versions = self.written.setdefault((account, write.resource, write.key), {})
            base = None if expected is None else versions.get(expected)
            if base is not None:
                for earlier in [version for version in versions if version < (expected or 0)]:
                    del versions[earlier]
                name = f"{write.resource}/{write.key}" if isinstance(event, RecordsWritten) else ""
                owned = RESOURCES[write.resource].schema.owned if write.resource in RESOURCES else frozenset()
                old, new = (
                    dict(_members(orjson.loads(record), owned - OWN_ACTIONS)) for record in (base, write.record)
                )
                for member in sorted(old.keys() | new.keys()):
                    if old.get(member) != new.get(member):
                        yield MemberChange(member, old.get(member), new.get(member), name)
            versions[offset] = write.record

    def _entitled(self, subject: dict[str, str]) -> dict[str, str]:
        title = self.titles.get(subject.get("key") or subject.get("contest") or "")
        return subject | {"title": title} if title else subject

    def _account(self, event: Audited) -> str | None:
        if isinstance(event, OperatorActed):
            return event.arguments.get("account") or self.owners.get(event.arguments.get("contest", ""))
        if isinstance(event, VoteRemoved | SourceReported):
            by_key = self.accounts.get(event.actor.name) if event.actor is not None else None
            return self.owners.get(event.contest, by_key)
        return event.account


async def read_audit(
    deployment: Deployment, environment: Environment, wanted: AuditFilter
) -> AsyncIterator[AuditRow]:
    """Yield a row per event in the order of append times; quarantined records are left out.

    The catalogue is read from its beginning, for the accounts of keys. The test environment has no other topics.
    """
    audit, reader = Audit(wanted), deployment.reader
    catalogue = deployment.catalogue_of(environment).topic
    sources: list[tuple[Log, Codec[Any], Collection[bytes], int]] = [(catalogue, catalogue_codec, ALL, 0)]
    if environment is Environment.PRODUCTION:
        sources.append((deployment.votes, vote_codec, OF_VOTES, wanted.since_ms))
        sources.append((deployment.purchases, purchases_codec, OF_PURCHASES, wanted.since_ms))
    opened: list[AsyncGenerator[MergedRecord[Any], None]] = []
    for topic, codec, words, since_ms in sources:
        extents = await extents_between(reader, topic.name, topic.numbers, since_ms, wanted.until_ms)
        opened += streams(reader, topic.name, extents, codec, words)
    async with aclosing(in_order(opened)) as entries:
        async for entry in entries:
            if (row := audit.row(entry)) is not None:
                yield row


def _audited(event: CatalogueEvent | VotesEvent | PurchasesEvent | Undecodable) -> Audited | None:
    """Return the event if it names who caused it, else None.

    A removal by refund is left out: its PurchaseRefunded names the actor.
    """
    if isinstance(event, VoteRemoved) and event.reason != "voter":
        return None
    return event if isinstance(event, Audited) else None


def _log(event: Audited) -> str:
    if isinstance(event, VoteRemoved | SourceReported):
        return "votes"
    return "purchases" if isinstance(event, OfPurchases) else "catalogue"


def _writes(event: Audited) -> Iterator[tuple[RecordCreated | RecordChanged | Write, int | None]]:
    """Yield the records that the event writes, with the version that each was made from; None: a new one."""
    match event:
        case RecordCreated():
            yield event, None
        case RecordChanged():
            yield event, event.expected_version
        case RecordsWritten():
            yield from ((write, write.expected_version) for write in event.writes)


def _titles(event: Audited) -> dict[str, str]:
    """Return the titles of the written contests and participants."""
    return {
        write.key: orjson.loads(write.record).get("title") or ""
        for write, _ in _writes(event)
        if write.resource in ENTITLED
    }


def _members(document: dict[str, Any], without: Collection[str], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the members of a document and of the objects in it by their dotted paths; lists are values."""
    for name, value in document.items():
        if name in without:
            continue
        if isinstance(value, dict) and value:
            yield from _members(value, (), f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _subject(event: Audited) -> dict[str, str]:
    """Return the ids of the object that the event changed."""
    match event:
        case RecordCreated() | RecordChanged() | RecordDeleted():
            return {"resource": event.resource, "key": event.key}
        case RecordsWritten():
            names = [f"{write.resource}/{write.key}" for write in event.writes]
            return {"records": ",".join(names)}
        case ContestClosing() | ContestRestored():
            return {"resource": "contests", "key": event.contest}
        case KeyIssued():
            permissions = ",".join(event.permissions)
            parent = {"parent": event.ancestors[-1].key_id} if event.ancestors else {}
            return {"key_id": event.key_id, "permissions": permissions, "name": event.rules.name} | parent
        case KeyRevoked():
            kept = {"descendants": "kept"} if event.keeps_descendants else {}
            return {"key_id": event.key_id} | kept
        case OperatorActed():
            return event.arguments
        case VoteRemoved():
            return {"contest": event.contest, "vote_id": event.vote_id}
        case SourceReported():
            return {"contest": event.contest, "source": event.source, "report_id": event.report_id}
        case PurchaseRecorded() | PurchaseUpdated() | PurchaseRefunded():
            return {"purchase": event.key}
    assert_never(event)
