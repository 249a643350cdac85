"""The catalogue's fold in plain Python: what `catalogue.lua` is held equal to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from libs.contracts.catalogue import (
    CatalogueCommand,
    CatalogueEvent,
    ContestClosing,
    KeyIssued,
    KeyRevoked,
    KeyRow,
    Outcome,
    OutcomeKind,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
    RecordWritten,
    Ref,
    Stored,
)
from libs.contracts.codec import Undecodable
from libs.tally.events import LogCreated

DAY_MS = 24 * 3600 * 1000
Name = tuple[str, str, str]
"""Account, resource, key."""


@dataclass
class Held:
    """One record with what ties it to others."""

    stored: Stored
    parent: Ref | None
    refs: tuple[Ref, ...]
    offers: tuple[Ref, ...]


@dataclass
class Model:
    """The state of one partition."""

    records: dict[Name, Held] = field(default_factory=dict)
    numbers: dict[tuple[str, str, str], int] = field(default_factory=dict)
    config: dict[str, int] = field(default_factory=dict)
    due: dict[tuple[str, str], int] = field(default_factory=dict)
    keys: dict[str, KeyRow] = field(default_factory=dict)
    outcomes: dict[str, tuple[int, Outcome]] = field(default_factory=dict)
    quarantine: dict[int, str] = field(default_factory=dict)
    offset: int = 0
    time: int = 0
    clock: int = 0

    def fold(self, offset: int, timestamp_ms: int, event: CatalogueEvent | Undecodable) -> None:
        self.time = max(self.time, timestamp_ms)
        self.offset = offset + 1
        if isinstance(event, Undecodable):
            self.quarantine[offset] = event.reason
        elif not isinstance(event, LogCreated):
            self._command(offset, event)

    def outcome(self, command_id: str) -> Outcome | None:
        """What is remembered for 24 h of log time."""
        kept = self.outcomes.get(command_id)
        return kept[1] if kept is not None and kept[0] > self.time - DAY_MS else None

    def version(self, name: Name) -> int:
        held = self.records.get(name)
        return -1 if held is None else held.stored.version

    def list_of(self, account: str, resource: str, parent: str, order: str) -> list[Stored]:
        found = [
            held.stored
            for (owner, kind, _), held in self.records.items()
            if owner == account and kind == resource and held.stored.parent == parent
        ]
        return sorted(found, key=lambda stored: getattr(stored, order), reverse=True)

    def _command(self, offset: int, event: CatalogueCommand) -> None:
        if self.outcome(event.command_id) is None:
            self._remember(event, self._judge(offset, event))
        if not isinstance(event, KeyIssued | KeyRevoked) and event.contest is not None:
            self.config[event.contest] = offset

    def _remember(self, event: CatalogueCommand, outcome: Outcome) -> None:
        if outcome.stored is not None and not event.content:
            outcome = replace(outcome, stored=replace(outcome.stored, record=""))
        self.outcomes[event.command_id] = (self.time, outcome)

    def _judge(self, offset: int, event: CatalogueCommand) -> Outcome:
        refuse = lambda kind, *refs: Outcome(kind, offset, event.content, None, refs)  # noqa: E731
        match event:
            case KeyIssued():
                if event.key_id in self.keys:
                    return refuse(OutcomeKind.EXISTS)
                self.keys[event.key_id] = KeyRow(
                    event.account, event.key_id, event.sha256, event.permissions, event.at
                )
                self._tick(event)
                return refuse(OutcomeKind.OK)
            case KeyRevoked():
                row = self.keys.get(event.key_id)
                if row is None or row.account != event.account:
                    return refuse(OutcomeKind.MISSING, ("keys", event.key_id))
                del self.keys[event.key_id]
                self._tick(event)
                return refuse(OutcomeKind.OK)
        if isinstance(event, ContestClosing):
            return self._close(offset, event, refuse)
        name = (event.account, event.resource, event.key)
        old = self.records.get(name)
        if isinstance(event, RecordCreated):
            if old is not None:
                return refuse(OutcomeKind.EXISTS)
            missing = self._missing(event)
            if event.parent is not None and (event.account, *event.parent) not in self.records:
                missing.insert(0, event.parent)
            if missing:
                return refuse(OutcomeKind.MISSING, *missing)
            number = 0
            if event.parent is not None:
                counter = (event.account, event.resource, event.parent[1])
                number = self.numbers[counter] = self.numbers.get(counter, 0) + 1
            now = self._tick(event)
            parent = event.parent[1] if event.parent is not None else ""
            stored = Stored(event.key, offset, now, now, number, parent, event.record)
            self.records[name] = Held(stored, event.parent, event.refs, event.offers)
            self._schedule(event)
            return Outcome(OutcomeKind.OK, offset, event.content, stored)
        if old is None:
            return refuse(OutcomeKind.MISSING, (event.resource, event.key))
        if event.expected_version is not None and event.expected_version != old.stored.version:
            return refuse(OutcomeKind.CONFLICT)
        if isinstance(event, RecordChanged):
            if missing := self._missing(event):
                return refuse(OutcomeKind.MISSING, *missing)
            gone = [offer for offer in old.offers if offer not in event.offers]
            if found := self._referrers(event.account, gone, {(event.resource, event.key)}):
                return refuse(OutcomeKind.IN_USE, *found)
            now = self._tick(event)
            stored = replace(old.stored, version=offset, updated=now, record=event.record)
            self.records[name] = Held(stored, old.parent, event.refs, event.offers)
            self._schedule(event)
            return Outcome(OutcomeKind.OK, offset, event.content, stored)
        assert isinstance(event, RecordDeleted)
        if event.expected_parent is not None:
            above = self.version((event.account, *old.parent)) if old.parent is not None else -1
            if above != event.expected_parent:
                return refuse(OutcomeKind.CONFLICT)
        family = self._family(event.account, (event.resource, event.key))
        targets = [t for ref in family for t in (ref, *self.records[event.account, *ref].offers)]
        if found := self._referrers(event.account, targets, set(family)):
            return refuse(OutcomeKind.IN_USE, *found)
        for ref in family:
            del self.records[event.account, *ref]
            self.due.pop((event.account, ref[1]) if ref[0] == "contests" else ("", ""), None)
            for counter in [c for c in self.numbers if c[0] == event.account and c[2] == ref[1]]:
                if self._is_child_kind(counter[1], ref[0]):
                    del self.numbers[counter]
        self._tick(event)
        return refuse(OutcomeKind.OK)

    def _close(self, offset: int, event: ContestClosing, refuse: Callable[..., Outcome]) -> Outcome:
        name = (event.account, "contests", event.contest)
        old = self.records.get(name)
        if old is None:
            return refuse(OutcomeKind.MISSING, name[1:])
        if self.config.get(event.contest) != event.expected_config:
            return refuse(OutcomeKind.CONFLICT)
        stored = replace(old.stored, version=offset, updated=self._tick(event), record=event.record)
        self.records[name] = replace(old, stored=stored)
        return Outcome(OutcomeKind.OK, offset, event.content, stored)

    def _schedule(self, event: RecordWritten) -> None:
        if event.resource == "contests" and event.due is not None:
            self.due[event.account, event.key] = event.due
        elif event.resource == "contests":
            self.due.pop((event.account, event.key), None)

    def _is_child_kind(self, resource: str, parent: str) -> bool:
        return PARENTS.get(resource) == parent

    def _tick(self, event: CatalogueCommand) -> int:
        self.clock = max(self.clock + 1, min(event.at, self.time * 1000 + 999))
        return self.clock

    def _missing(self, event: RecordWritten) -> list[Ref]:
        offered = {
            offer for (owner, *_), held in self.records.items() if owner == event.account for offer in held.offers
        }
        own = {(event.resource, event.key), *event.offers}
        return [
            ref
            for ref in event.refs
            if ref not in own and ref not in offered and (event.account, *ref) not in self.records
        ]

    def _referrers(self, account: str, targets: list[Ref], but: set[Ref]) -> list[Ref]:
        return [
            ref
            for target in targets
            for ref in sorted((resource, key) for owner, resource, key in self.records if owner == account)
            if ref not in but and target in self.records[account, *ref].refs
        ]

    def _family(self, account: str, top: Ref) -> list[Ref]:
        family = [top]
        for ref in family:
            family += [
                (resource, key)
                for (owner, resource, key), held in self.records.items()
                if owner == account and held.parent == ref
            ]
        return family


PARENTS = {"participants": "contests", "timeslots": "conventions", "comments": "timeslots"}
