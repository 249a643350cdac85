"""Creates, reads, lists, changes and deletes the records of every resource in the table.

A write is validated, appended as an event, and returns when the fold has decided it: its result is in the view,
and every later read returns it.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

from libs.catalogue.cross_account_refs import OwnerReader, without_shared
from libs.catalogue.errors import VersionConflict
from libs.catalogue.merge_patch import keep_item_members, merge_patch
from libs.catalogue.outcome_errors import Refs, has_changed, no_such, refusal
from libs.catalogue.pagination import ListReader, ListRequest, Page, read_page
from libs.catalogue.record_builder import Change, Draft, RecordBuilder, contest_of, refs_of, validated
from libs.catalogue.resource import Document, Resource, Table
from libs.catalogue.schemas.base import UNKNOWN_MEMBER, checked, unknown_members
from libs.catalogue.writer import FOLD_DEADLINE_S, CatalogueWriter, Request
from libs.contracts.catalogue import (
    OWN_KEY_PATTERN,
    Outcome,
    OutcomeKind,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
    RecordsWritten,
    Stored,
    Write,
)
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import IdempotencyKeyReused, NotFound, ViewsUnavailable

Fits = Callable[[Stored], bool]
"""The caller's precondition on the current version."""
Guard = Callable[[str, Stored], Awaitable[int]]
"""Raises to reject the deletion of an account's record, or returns the checked version of its parent."""


class Reader(ListReader, OwnerReader, Protocol):
    """Reads records from the catalogue's views."""


class Written(NamedTuple):
    """A written record. `replayed`: an earlier request with the same idempotency key wrote it."""

    stored: Stored
    replayed: bool


class RecordService:
    """The records of one environment. Other accounts' records are not found.

    `guards` check deletions, by resource name.
    """

    def __init__(
        self, table: Table, views: Reader, writer: CatalogueWriter, guards: Mapping[str, Guard] | None = None
    ) -> None:
        self.table = table
        self._builder = RecordBuilder(table)
        self._guards = guards or {}
        self._views = views
        self._writer = writer
        self._locks: WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = WeakValueDictionary()

    async def get(self, row: Resource, account: str, key: str) -> Stored:
        """Return a record. Raises `NotFound`."""
        stored = await self._views.get(account, row.name, key)
        if stored is None:
            raise no_such(row, key)
        return stored

    async def page(self, row: Resource, account: str, request: ListRequest, parent: str = "") -> Page:
        """Return a page of a list. Raises `NotFound` if the parent does not exist, `ValidationFailed` for a broken
        token."""
        if row.parent is not None:
            await self.get(self.table[row.parent], account, parent)
        return await read_page(self._views, account, row.name, parent, request)

    async def earlier(self, row: Resource, account: str, request: Request, parent: str = "") -> Written | None:
        """Return the record created by an earlier request with the same idempotency key. Raises as `create`."""
        if not request.content or (outcome := await self._writer.outcome(account, request.command_id)) is None:
            return None
        return self._written(row, outcome, request, parent, {}, None)

    async def create(
        self,
        row: Resource,
        account: str,
        body: Document,
        request: Request,
        *,
        parent: str = "",
        key: str = "",
        owned: Document | None = None,
    ) -> Written:
        """Create a record, with a random key unless `key` is given; `owned` are the server's members.

        Raises `ValidationFailed`, `NotFound` (the parent), `IdempotencyKeyReused`, `VersionConflict` (a given key
        exists), and what `CatalogueWriter.record` raises.
        """
        if (earlier := await self.earlier(row, account, request, parent)) is not None:
            return earlier
        document = validated(row, body, _owned(row, body)) | (owned or {})
        above = None if row.parent is None else await self.get(self.table[row.parent], account, parent)
        command = self._command(account, request)
        draft = self._builder.new(row, document, above, command["at"], key)
        refs, payload = await self._enforced(account, row, draft)
        event = RecordCreated(**command, **payload)
        outcome = await self._writer.record(event)
        return self._written(row, outcome, request, parent, refs, event)

    async def patch(
        self, row: Resource, account: str, key: str, patch: Document, fits: Fits | None = None
    ) -> Stored:
        """Merge `patch` (RFC 7396) into the record; a patch without changes writes nothing.

        After a lost race the patch is merged again, or with `fits` raises `VersionConflict`. Also raises as
        `create`, `InUse` if it removes a part that others reference, and the errors of the row's `judge`.
        """
        unknown = _owned(row, patch) + unknown_members(row.schema, patch)

        def change(before: Document) -> Any:
            merged = keep_item_members(row.kept, before, merge_patch(before, patch))
            if unknown:
                checked(row.schema, merged, unknown)
            return merged

        try:
            return await self.change(row, account, key, change, fits)
        except NotFound:
            if unknown:
                raise ValidationFailed(unknown) from None
            raise

    async def change(
        self,
        row: Resource,
        account: str,
        key: str,
        change: Callable[[Document], Any],
        fits: Fits | None = None,
        owned: Document | None = None,
    ) -> Stored:
        """Change a record as `patch`, with the body that `change` returns; `change` may raise to reject the write.

        `owned` are the server's members.
        """
        async with self._serialized(row, account, key):
            while True:
                stored = await self.get(row, account, key)
                if fits is not None and not fits(stored):
                    raise has_changed(row, key)
                changed = await self._change(row, account, stored, change(stored.document), owned=owned)
                if changed is not None:
                    return changed
                if fits is not None:
                    raise has_changed(row, key)

    async def put(
        self, row: Resource, account: str, key: str, body: Document, *, parent: str, fits: Fits | None = None
    ) -> tuple[Stored, Stored | None]:
        """Replace the record by `body`, or create it.

        Return the new and the old record. Without changes nothing is written. Raises as `create` and `patch`.
        """
        _refuse_owned(row, body)
        async with self._serialized(row, account, key):
            while True:
                before = await self._views.get(account, row.name, key)
                if fits is not None and (before is None or not fits(before)):
                    raise has_changed(row, key)
                if before is None:
                    with suppress(VersionConflict):  # another write made it first
                        written = await self.create(row, account, body, Request.once(), parent=parent, key=key)
                        return written.stored, None
                else:
                    changed = await self._change(row, account, before, body)
                    if changed is not None:
                        return changed, before

    async def place(self, row: Resource, account: str, key: str, body: Document, request: Request) -> Written:
        """Create or replace the record at a key chosen by the account.

        It is new if `created` equals `updated`. Raises as `create`, and `ValidationFailed` for an invalid key.
        """
        if not re.fullmatch(OWN_KEY_PATTERN, key):
            raise ValidationFailed([Problem("", "a key is 1 to 130 of A-Z a-z 0-9 _ . ~ -, and not . or ..")])
        _refuse_owned(row, body)
        async with self._serialized(row, account, key):
            while True:
                earlier = await self._writer.outcome(account, request.command_id) if request.content else None
                if earlier is not None and earlier.kind not in (OutcomeKind.CONFLICT, OutcomeKind.EXISTS):
                    return self._written(row, earlier, request, "", {}, None)
                before = await self._views.get(account, row.name, key)
                if earlier is not None:
                    _refuse_other_content(earlier, request)
                elif before is None:
                    with suppress(VersionConflict):  # another write made it first
                        return await self.create(row, account, body, request, key=key)
                elif (changed := await self._change(row, account, before, body, request)) is not None:
                    return Written(changed, replayed=False)
                request = request.again()

    async def write_together(
        self, row: Resource, account: str, parent: str, changes: Sequence[tuple[str, Change]]
    ) -> list[Stored]:
        """Write several records of one parent atomically; each pair holds a key ("": new record) and its change.

        Changes are called again after a lost race. Raises as `create` and `patch`, with pointers that start with
        the index in `changes`, and `ValidationFailed` for a key of another parent or a duplicate.
        """
        async with self._serialized(row, account, f"{parent}/"):
            while True:
                above = await self.get(self.table[row.parent or ""], account, parent)
                keys = dict.fromkeys(key for key, _ in changes if key)
                known = await asyncio.gather(*(self.get(row, account, key) for key in keys))
                found = {stored.key: stored for stored in known}
                command = self._command(account, Request.once())
                requested = [(found.get(key), change) for key, change in changes]
                drafts = [
                    await self._enforced(account, row, draft, stored)
                    for draft, (stored, _) in zip(
                        self._builder.together(row, above, requested, command["at"]), requested, strict=True
                    )
                ]
                writes = tuple(
                    Write(**draft.payload, expected_version=found[key].version if key else None)
                    for draft, (key, _) in zip(drafts, changes, strict=True)
                )
                event = RecordsWritten(**command, writes=writes)
                outcome = await self._writer.record(event)
                if outcome.kind is OutcomeKind.OK:
                    pairs = zip(outcome.written, writes, strict=True)
                    return [replace(stored, record=write.record) for stored, write in pairs]
                if outcome.kind is not OutcomeKind.CONFLICT:
                    missing = next((key for key, _ in changes if (row.name, key) in outcome.refs), "")
                    raise refusal(row, missing, parent, outcome, refs_of(drafts))

    async def amend(self, row: Resource, account: str, key: str, change: Callable[[Document], Document]) -> Stored:
        """Change a record on behalf of the server, including owned members.

        `change` is called again after a lost race, and raises to reject. Without changes nothing is written.
        """
        async with self._serialized(row, account, key):
            while True:
                stored = await self.get(row, account, key)
                changed = await self._write(row, account, stored, change(stored.document))
                if changed is not None:
                    return changed

    async def amend_once(
        self, row: Resource, account: str, key: str, change: Callable[[Document], Document], request: Request
    ) -> Written:
        """Amend a record once per `request`; a repeated request returns the current record."""
        async with self._serialized(row, account, key):
            while True:
                stored = await self.get(row, account, key)
                earlier = await self._writer.outcome(account, request.command_id) if request.content else None
                if earlier is not None:
                    _refuse_other_content(earlier, request)
                    if earlier.kind is OutcomeKind.OK:
                        return Written(stored, replayed=True)
                elif (
                    changed := await self._write(row, account, stored, change(stored.document), request)
                ) is not None:
                    return Written(changed, replayed=False)
                request = request.again()

    @asynccontextmanager
    async def _serialized(self, row: Resource, account: str, key: str) -> AsyncIterator[None]:
        """Serialize the writes of a record in this process, to avoid repeated conflicts."""
        lock = self._locks.setdefault((account, row.name, key), asyncio.Lock())
        try:
            async with asyncio.timeout(2 * FOLD_DEADLINE_S), lock:
                yield
        except TimeoutError:
            raise ViewsUnavailable("Too many concurrent writes to this record.", retry_after_s=1) from None

    async def _change(
        self,
        row: Resource,
        account: str,
        stored: Stored,
        body: Document,
        request: Request | None = None,
        owned: Document | None = None,
    ) -> Stored | None:
        """Try one write; return None if another write came first.

        Without a `request`, a write without changes is skipped.
        """
        document = self._builder.changed(row, stored.document, body, self._writer.now(), owned)
        return await self._write(row, account, stored, document, request)

    async def _enforced(self, account: str, row: Resource, draft: Draft, before: Stored | None = None) -> Draft:
        """Return the draft without references to other accounts' shared records, which are not enforced."""
        held = {} if before is None else self.table.references(row, before.document, before.parent)
        return draft.holding(await without_shared(self._views, self.table, account, draft.refs, held.values()))

    def _command(self, account: str, request: Request) -> dict[str, Any]:
        return {
            "account": account,
            "command_id": request.command_id,
            "at": self._writer.now(),
            "content": request.content,
        }

    async def _write(
        self, row: Resource, account: str, stored: Stored, document: Document, request: Request | None = None
    ) -> Stored | None:
        """Write a validated document, as `_change`."""
        if request is None and document == stored.document:
            return stored
        request = request or Request.once()
        draft = self._builder.of(row, stored.key, stored.parent, document)
        refs, payload = await self._enforced(account, row, draft, stored)
        event = RecordChanged(**self._command(account, request), **payload, expected_version=stored.version)
        outcome = await self._writer.record(event)
        _refuse_other_content(outcome, request)
        if outcome.kind is OutcomeKind.CONFLICT:
            return None
        if outcome.kind is not OutcomeKind.OK or outcome.stored is None:
            raise refusal(row, stored.key, stored.parent, outcome, refs)
        return replace(outcome.stored, record=event.record)

    async def delete(self, row: Resource, account: str, key: str, fits: Fits | None = None) -> None:
        """Delete a record and its children. Raises `NotFound`, `VersionConflict`, `InUse`, or as its guard."""
        guard = self._guards.get(row.name)
        async with self._serialized(row, account, key):
            while True:
                stored = await self.get(row, account, key)
                if fits is not None and not fits(stored):
                    raise has_changed(row, key)
                event = RecordDeleted(
                    **self._command(account, Request.once()),
                    resource=row.name,
                    key=key,
                    expected_version=None if fits is None else stored.version,
                    expected_parent=None if guard is None else await guard(account, stored),
                    contest=contest_of(row, key, stored.parent),
                )
                outcome = await self._writer.record(event)
                if outcome.kind is OutcomeKind.OK:
                    return
                if outcome.kind is not OutcomeKind.CONFLICT:
                    raise refusal(row, key, stored.parent, outcome, {})

    def _written(
        self,
        row: Resource,
        outcome: Outcome,
        request: Request,
        parent: str,
        refs: Refs,
        event: RecordCreated | None,
    ) -> Written:
        """Return the result of a create; `outcome` is of the first event with its id, possibly not `event`."""
        _refuse_other_content(outcome, request)
        stored = outcome.stored
        if outcome.kind is not OutcomeKind.OK or stored is None:
            raise refusal(row, event.key if event is not None else "", parent, outcome, refs)
        if event is None or stored.key != event.key:
            return Written(stored, replayed=True)
        return Written(replace(stored, record=event.record), replayed=False)


def _owned(row: Resource, body: Document) -> list[Problem]:
    """Return a problem for each member of `body` that only the server writes."""
    return [Problem(f"/{name}", UNKNOWN_MEMBER) for name in sorted(row.schema.owned & body.keys())]


def _refuse_owned(row: Resource, body: Document) -> None:
    """Reject the server's members. Raises `ValidationFailed` with these and all other problems of the body."""
    if problems := _owned(row, body):
        validated(row, body, problems)


def _refuse_other_content(outcome: Outcome, request: Request) -> None:
    if outcome.content != request.content:
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request.")
