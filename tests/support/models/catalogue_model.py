"""Reference fold of the catalogue in plain Python, compared with `views/catalogue/*.lua`."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from libs.contracts.catalogue_events import (
    ApiKey,
    CatalogueCommand,
    CatalogueEvent,
    ContestClosing,
    ContestRestored,
    KeyIssued,
    KeyRevoked,
    OperatorActed,
    Outcome,
    OutcomeKind,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
    RecordsWritten,
    Ref,
    Stored,
    Write,
    contests_of,
)
from libs.contracts.codec import Undecodable
from libs.tally.events import LogCreated, LogLost
from libs.views.catalogue.catalogue_fold import MOST_OUTCOMES

DELETED = "deleted_contests"
DAY_MS = 24 * 3600 * 1000
Name = tuple[str, str, str]
"""Account, resource, key."""
Written = RecordCreated | RecordChanged | RecordsWritten


@dataclass
class Held:
    """One record with what ties it to others."""

    stored: Stored
    parent: Ref | None
    refs: tuple[Ref, ...]
    offers: tuple[Ref, ...]
    sort_key: str


@dataclass
class Model:
    """The state of one partition."""

    records: dict[Name, Held] = field(default_factory=dict)
    numbers: dict[tuple[str, str, str], int] = field(default_factory=dict)
    config: dict[str, int] = field(default_factory=dict)
    due: dict[tuple[str, str], int] = field(default_factory=dict)
    keys: dict[str, ApiKey] = field(default_factory=dict)
    outcomes: dict[str, tuple[int, str, int, Outcome]] = field(default_factory=dict)
    commands: Counter[str] = field(default_factory=Counter)
    most_outcomes: int = MOST_OUTCOMES
    quarantine: dict[int, str] = field(default_factory=dict)
    offset: int = 0
    time: int = 0
    clock: int = 0

    def fold(self, offset: int, timestamp_ms: int, event: CatalogueEvent | Undecodable) -> None:
        self.time = max(self.time, timestamp_ms)
        self.offset = offset + 1
        if isinstance(event, Undecodable):
            self.quarantine[offset] = event.reason
        elif not isinstance(event, LogCreated | LogLost | OperatorActed):
            self._command(offset, event)

    def outcome(self, command_id: str) -> Outcome | None:
        """Outcomes, kept for 24 h of log time, and of the latest commands of an account only."""
        if command_id not in self.outcomes:
            return None
        time, account, number, outcome = self.outcomes[command_id]
        is_latest = number >= self.commands[account] - self.most_outcomes
        return outcome if is_latest and time > self.time - DAY_MS else None

    def version(self, name: Name) -> int:
        held = self.records.get(name)
        return -1 if held is None else held.stored.version

    def found(self, name: Name) -> Held | None:
        """Return a record unless it belongs to a deleted contest."""
        held = self.records.get(name)
        is_hidden = held is not None and held.parent is not None and (name[0], *held.parent) not in self.records
        return None if is_hidden else held

    def list_of(self, account: str, resource: str, parent: str, order: str) -> list[Stored]:
        found = [
            held.stored
            for name in self.records
            if name[:2] == (account, resource)
            and (held := self.found(name)) is not None
            and held.stored.parent == parent
        ]
        return sorted(found, key=lambda stored: getattr(stored, order), reverse=True)

    def place(self, account: str, resource: str, stored: Stored) -> str:
        return f"{self.records[account, resource, stored.key].sort_key}\0{stored.key}"

    def ascending(self, account: str, resource: str, parent: str, order: str) -> list[Stored]:
        found = self.list_of(account, resource, parent, "created")[::-1]
        if order == "running_number":
            return found
        placed = [stored for stored in found if self.records[account, resource, stored.key].sort_key]
        return sorted(placed, key=lambda stored: self.place(account, resource, stored))

    def _command(self, offset: int, event: CatalogueCommand) -> None:
        if self.outcome(event.command_id) is None:
            self._remember(event, self._judge(offset, event))
        self.config |= dict.fromkeys(contests_of(event), offset)

    def _remember(self, event: CatalogueCommand, outcome: Outcome) -> None:
        outcome = replace(outcome, written=tuple(replace(stored, record="") for stored in outcome.written))
        self.outcomes[event.command_id] = (self.time, event.account, self.commands[event.account], outcome)
        self.commands[event.account] += 1

    def _judge(self, offset: int, event: CatalogueCommand) -> Outcome:
        refuse = lambda kind, *refs: Outcome(kind, offset, event.content, (), refs)  # noqa: E731
        match event:
            case KeyIssued():
                if event.key_id in self.keys:
                    return refuse(OutcomeKind.EXISTS)
                parent = self.keys.get(event.ancestors[-1].key_id) if event.ancestors else None
                if event.ancestors and (parent is None or parent.account != event.account):
                    return refuse(OutcomeKind.MISSING, ("keys", event.ancestors[-1].key_id))
                issued = (event.account, event.key_id, event.sha256, event.permissions, event.at)
                self.keys[event.key_id] = ApiKey(*issued, event.rules, event.ancestors, event.command_id)
                self._tick(event)
                return refuse(OutcomeKind.OK)
            case KeyRevoked():
                row = self.keys.get(event.key_id)
                if row is None or row.account != event.account:
                    return refuse(OutcomeKind.MISSING, ("keys", event.key_id))
                del self.keys[event.key_id]
                if not event.keeps_descendants:
                    self.keys = {key: row for key, row in self.keys.items() if not row.descends_from(event.key_id)}
                self._tick(event)
                return refuse(OutcomeKind.OK)
        if isinstance(event, ContestClosing):
            return self._close(offset, event, refuse)
        if isinstance(event, ContestRestored):
            return self._restore(offset, event, refuse)
        if not isinstance(event, RecordDeleted):
            return self._write(offset, event, refuse)
        old = self.found((event.account, event.resource, event.key))
        if old is None:
            return refuse(OutcomeKind.MISSING, (event.resource, event.key))
        if event.expected_version is not None and event.expected_version != old.stored.version:
            return refuse(OutcomeKind.CONFLICT)
        if event.expected_parent is not None:
            above = self.version((event.account, *old.parent)) if old.parent is not None else -1
            if above != event.expected_parent:
                return refuse(OutcomeKind.CONFLICT)
        if found := self._referrers(event.account, [(event.resource, event.key)], {(event.resource, event.key)}):
            return refuse(OutcomeKind.IN_USE, *found)
        if event.resource == "contests":
            deleted = replace(old, stored=replace(old.stored, updated=self._tick(event)))
            self.records[event.account, DELETED, event.key] = deleted
            del self.records[event.account, "contests", event.key]
            self.due.pop((event.account, event.key), None)
            return refuse(OutcomeKind.OK)
        family = self._family(event.account, (event.resource, event.key))
        for ref in family:
            del self.records[event.account, *ref]
            for counter in [c for c in self.numbers if c[0] == event.account and c[2] == ref[1]]:
                if self._is_child_kind(counter[1], ref[0]):
                    del self.numbers[counter]
        self._tick(event)
        return refuse(OutcomeKind.OK)

    def _write(self, offset: int, event: Written, refuse: Callable[..., Outcome]) -> Outcome:
        """Everything is written first, and checked then: a reference to what is changed is no fault."""
        account, writes = event.account, event.writes if isinstance(event, RecordsWritten) else (_write_of(event),)
        written = {(write.resource, write.key) for write in writes}
        if len(written) < len(writes):
            return refuse(OutcomeKind.CONFLICT)
        after, numbers = dict(self.records), dict(self.numbers)
        now = self._next(event)
        for index, write in enumerate(writes):
            name = (account, write.resource, write.key)
            old = self.records.get(name)
            if write.expected_version is None:
                counter = (account, write.resource, write.parent[1]) if write.parent else None
                number = 0 if counter is None else numbers.get(counter, 0) + 1
                numbers |= {} if counter is None else {counter: number}
                parent = write.parent[1] if write.parent else ""
                stored = Stored(write.key, offset, now + index, now + index, number, parent, write.record)
                after[name] = Held(stored, write.parent, write.refs, write.offers, write.sort_key)
            elif old is not None:
                stored = replace(old.stored, version=offset, updated=now + index, record=write.record)
                after[name] = Held(stored, old.parent, write.refs, write.offers, write.sort_key)
        for write in writes:
            old, ref = self.records.get((account, write.resource, write.key)), (write.resource, write.key)
            deleted = write.resource == "contests" and (account, DELETED, write.key) in self.records
            if write.expected_version is None and (old is not None or deleted):
                return refuse(OutcomeKind.EXISTS)
            if write.expected_version is not None and self.found((account, write.resource, write.key)) is None:
                return refuse(OutcomeKind.MISSING, ref)
            if old is not None and write.expected_version != old.stored.version:
                return refuse(OutcomeKind.CONFLICT)
            missing = [ref for ref in _missing(after, account, write) if ref not in written]
            if old is None and write.parent is not None and (account, *write.parent) not in self.records:
                missing.insert(0, write.parent)
            if missing:
                return refuse(OutcomeKind.MISSING, *missing)
            gone = [offer for offer in old.offers if offer not in write.offers] if old is not None else []
            if found := self._referrers(account, gone, {(one.resource, one.key) for one in writes}):
                return refuse(OutcomeKind.IN_USE, *found)
        self.records, self.numbers, self.clock = after, numbers, now + len(writes) - 1
        for write in writes:
            self._schedule(account, write)
        left = tuple(after[account, write.resource, write.key].stored for write in writes)
        return Outcome(OutcomeKind.OK, offset, event.content, left)

    def _close(self, offset: int, event: ContestClosing, refuse: Callable[..., Outcome]) -> Outcome:
        name = (event.account, "contests", event.contest)
        old = self.records.get(name)
        if old is None:
            return refuse(OutcomeKind.MISSING, name[1:])
        if self.config.get(event.contest) != event.expected_config:
            return refuse(OutcomeKind.CONFLICT)
        stored = replace(old.stored, version=offset, updated=self._tick(event), record=event.record)
        self.records[name] = replace(old, stored=stored)
        return Outcome(OutcomeKind.OK, offset, event.content, (stored,))

    def _restore(self, offset: int, event: ContestRestored, refuse: Callable[..., Outcome]) -> Outcome:
        account, key = event.account, event.contest
        old = self.records.pop((account, DELETED, key), None)
        if old is None:
            return refuse(OutcomeKind.MISSING, ("contests", key))
        stored = replace(old.stored, version=offset, updated=self._tick(event))
        self.records[account, "contests", key] = replace(old, stored=stored)
        offered = {
            offer for (owner, *_), held in self.records.items() if owner == account for offer in held.offers
        }
        for ref in [("contests", key), *self._children(account, ("contests", key))]:
            held = self.records[account, *ref]
            kept = [to for to in held.refs if to in offered or (account, *to) in self.records]
            self.records[account, *ref] = replace(held, refs=tuple(kept))
        if event.due is not None:
            self.due[account, key] = event.due
        return Outcome(OutcomeKind.OK, offset, event.content, (stored,))

    def _schedule(self, account: str, write: Write) -> None:
        if write.resource == "contests" and write.due is not None:
            self.due[account, write.key] = write.due
        elif write.resource == "contests":
            self.due.pop((account, write.key), None)

    def _is_child_kind(self, resource: str, parent: str) -> bool:
        return PARENTS.get(resource) == ("contests" if parent == DELETED else parent)

    def _next(self, event: CatalogueCommand) -> int:
        return max(self.clock + 1, min(event.at, self.time * 1000 + 999))

    def _tick(self, event: CatalogueCommand) -> int:
        self.clock = self._next(event)
        return self.clock

    def _referrers(self, account: str, targets: list[Ref], but: set[Ref]) -> list[Ref]:
        return [
            ref
            for target in targets
            for ref in sorted((resource, key) for owner, resource, key in self.records if owner == account)
            if ref not in but and (held := self.found((account, *ref))) is not None and target in held.refs
            if ref[0] != DELETED
        ]

    def _family(self, account: str, top: Ref) -> list[Ref]:
        family = [top]
        for ref in family:
            family += self._children(account, ("contests", ref[1]) if ref[0] == DELETED else ref)
        return family

    def _children(self, account: str, parent: Ref) -> list[Ref]:
        return [
            (resource, key)
            for (owner, resource, key), held in self.records.items()
            if owner == account and held.parent == parent
        ]


def _write_of(event: RecordCreated | RecordChanged) -> Write:
    return Write(
        resource=event.resource,
        key=event.key,
        record=event.record,
        parent=event.parent,
        contest=event.contest,
        refs=event.refs,
        offers=event.offers,
        due=event.due,
        sort_key=event.sort_key,
        expected_version=event.expected_version if isinstance(event, RecordChanged) else None,
    )


def _missing(records: Mapping[Name, Held], account: str, write: Write) -> list[Ref]:
    offered = {offer for (owner, *_), held in records.items() if owner == account for offer in held.offers}
    return [ref for ref in write.refs if ref not in offered and (account, *ref) not in records]


PARENTS = {"participants": "contests", "timeslots": "conventions", "comments": "timeslots"}
