"""Records of every resource: made, read, listed, changed and deleted, by the rows of the table.

A write is validated, recorded as an event, and answered when the fold has judged it: what this returns is what the
view holds, and every read that follows sees it.
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
from libs.catalogue.merge_patch import keep_in_items, merge_patch
from libs.catalogue.outcome_errors import Refs, has_changed, no_such, refusal
from libs.catalogue.pagination import ListReader, ListRequest, Page, read_page
from libs.catalogue.record_builder import Change, Draft, RecordBuilder, contest_of, refs_of, validated
from libs.catalogue.resource import Document, Resource, Table
from libs.catalogue.schemas.base import NO_MEMBER, checked, strays_in
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
"""The caller's precondition on the version that a write starts from."""
Guard = Callable[[str, Stored], Awaitable[int]]
"""Refuses the deletion of an account's record by raising, or gives the version of its parent that it judged by."""


class Reader(ListReader, OwnerReader, Protocol):
    """What is needed of the catalogue's views."""


class Written(NamedTuple):
    """A record as a command left it. `replayed`: an earlier request with the same idempotency key made it."""

    stored: Stored
    replayed: bool


class RecordService:
    """The records of one world. Another account's records are not there for it.

    `guards` look at deletions, by the name of the resource.
    """

    def __init__(
        self, table: Table, views: Reader, writer: CatalogueWriter, guards: Mapping[str, Guard] | None = None
    ) -> None:
        self.table = table
        self._drafts = RecordBuilder(table)
        self._guards = guards or {}
        self._views = views
        self._writer = writer
        self._locks: WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = WeakValueDictionary()

    async def get(self, row: Resource, account: str, key: str) -> Stored:
        """Raises `NotFound`."""
        stored = await self._views.get(account, row.name, key)
        if stored is None:
            raise no_such(row, key)
        return stored

    async def page(self, row: Resource, account: str, request: ListRequest, parent: str = "") -> Page:
        """Raises `NotFound` where the parent does not exist, `ValidationFailed` for a broken token."""
        if row.parent is not None:
            await self.get(self.table[row.parent], account, parent)
        return await read_page(self._views, account, row.name, parent, request)

    async def earlier(self, row: Resource, account: str, request: Request, parent: str = "") -> Written | None:
        """What an earlier request with the same idempotency key made. Raises as `create`."""
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
        """A new record, under a key of its own unless one is given; `owned` are members that the server gives it.

        Raises `ValidationFailed`, `NotFound` (the parent), `IdempotencyKeyReused`, `VersionConflict` (a given key
        exists), and what `CatalogueWriter.record` raises.
        """
        if (earlier := await self.earlier(row, account, request, parent)) is not None:
            return earlier
        document = validated(row, body, _owned(row, body)) | (owned or {})
        above = None if row.parent is None else await self.get(self.table[row.parent], account, parent)
        command = self._command(account, request)
        refs, what = await self._firm(account, row, self._drafts.new(row, document, above, command["at"], key))
        event = RecordCreated(**command, **what)
        outcome = await self._writer.record(event)
        return self._written(row, outcome, request, parent, refs, event)

    async def patch(
        self, row: Resource, account: str, key: str, patch: Document, fits: Fits | None = None
    ) -> Stored:
        """The record merged with `patch` (RFC 7396); a patch that changes nothing writes nothing.

        With `fits` a lost race is a `VersionConflict`; without, the patch is merged again. Raises as `create`
        does, `InUse` where it takes away a part that others refer to, and what the row's `judge` raises.
        """
        strays = _owned(row, patch) + strays_in(row.schema, patch)

        def change(before: Document) -> Any:
            merged = keep_in_items(row.kept, before, merge_patch(before, patch))
            if strays:
                checked(row.schema, merged, strays)
            return merged

        try:
            return await self.change(row, account, key, change, fits)
        except NotFound:
            if strays:
                raise ValidationFailed(strays) from None
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
        """As `patch`, with a body that `change` makes of the document; it may raise to refuse.

        `owned` are members that the server gives it.
        """
        async with self._turn(row, account, key):
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
        """The record with this `body` and nothing of what it was before; made where there is none.

        Gives it as it is now and as it was. What changes nothing writes nothing. Raises as `create` and `patch`.
        """
        _refuse_owned(row, body)
        async with self._turn(row, account, key):
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
        """The record at a key of the account's own: made there, or replaced, with nothing left of what it was.

        It is new if it was `created` when it was `updated`. Raises as `create`, and `ValidationFailed` for what is
        no key.
        """
        if not re.fullmatch(OWN_KEY_PATTERN, key):
            raise ValidationFailed([Problem("", "a key is 1 to 130 of A-Z a-z 0-9 _ . ~ -, and not . or ..")])
        _refuse_owned(row, body)
        async with self._turn(row, account, key):
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
        """Several records of one parent in one step, all of them or none: each is what its change makes of the one
        under its key, or of nothing ("": a new one).

        Changes are called anew after a lost race. Raises as `create` and `patch`, pointers begin with the place
        in `changes`; and `ValidationFailed` for a key that is another parent's, or there twice.
        """
        async with self._turn(row, account, f"{parent}/"):
            while True:
                above = await self.get(self.table[row.parent or ""], account, parent)
                keys = dict.fromkeys(key for key, _ in changes if key)
                known = await asyncio.gather(*(self.get(row, account, key) for key in keys))
                found = {stored.key: stored for stored in known}
                command = self._command(account, Request.once())
                asked = [(found.get(key), change) for key, change in changes]
                drafts = [
                    await self._firm(account, row, draft, stored)
                    for draft, (stored, _) in zip(
                        self._drafts.together(row, above, asked, command["at"]), asked, strict=True
                    )
                ]
                writes = tuple(
                    Write(**draft.what, expected_version=found[key].version if key else None)
                    for draft, (key, _) in zip(drafts, changes, strict=True)
                )
                event = RecordsWritten(**command, writes=writes)
                outcome = await self._writer.record(event)
                if outcome.kind is OutcomeKind.OK:
                    pairs = zip(outcome.written, writes, strict=True)
                    return [replace(stored, record=write.record) for stored, write in pairs]
                if outcome.kind is not OutcomeKind.CONFLICT:
                    gone = next((key for key, _ in changes if (row.name, key) in outcome.refs), "")
                    raise refusal(row, gone, parent, outcome, refs_of(drafts))

    async def amend(self, row: Resource, account: str, key: str, change: Callable[[Document], Document]) -> Stored:
        """The record as the server itself changes it, owned members too.

        `change` is called anew after a lost race, and raises to refuse. What changes nothing writes nothing.
        """
        async with self._turn(row, account, key):
            while True:
                stored = await self.get(row, account, key)
                changed = await self._write(row, account, stored, change(stored.document))
                if changed is not None:
                    return changed

    async def amend_once(
        self, row: Resource, account: str, key: str, change: Callable[[Document], Document], request: Request
    ) -> Written:
        """As `amend`, once for a repeated `request`; a repetition gives the record as it is now."""
        async with self._turn(row, account, key):
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
    async def _turn(self, row: Resource, account: str, key: str) -> AsyncIterator[None]:
        """One write of a record at a time: merging them again and again would help nobody."""
        lock = self._locks.setdefault((account, row.name, key), asyncio.Lock())
        try:
            async with asyncio.timeout(2 * FOLD_DEADLINE_S), lock:
                yield
        except TimeoutError:
            raise ViewsUnavailable("Too many writes to this record at once.", retry_after_s=1) from None

    async def _change(
        self,
        row: Resource,
        account: str,
        stored: Stored,
        body: Document,
        request: Request | None = None,
        owned: Document | None = None,
    ) -> Stored | None:
        """One attempt; None when another write came first.

        Without a `request`, what changes nothing writes nothing.
        """
        document = self._drafts.changed(row, stored.document, body, self._writer.now(), owned)
        return await self._write(row, account, stored, document, request)

    async def _firm(self, account: str, row: Resource, draft: Draft, before: Stored | None = None) -> Draft:
        """The draft, which holds nothing of other accounts."""
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
        """As `_change`, of what was judged already."""
        if request is None and document == stored.document:
            return stored
        request = request or Request.once()
        draft = self._drafts.of(row, stored.key, stored.parent, document)
        refs, what = await self._firm(account, row, draft, stored)
        event = RecordChanged(**self._command(account, request), **what, expected_version=stored.version)
        outcome = await self._writer.record(event)
        _refuse_other_content(outcome, request)
        if outcome.kind is OutcomeKind.CONFLICT:
            return None
        if outcome.kind is not OutcomeKind.OK or outcome.stored is None:
            raise refusal(row, stored.key, stored.parent, outcome, refs)
        return replace(outcome.stored, record=event.record)

    async def delete(self, row: Resource, account: str, key: str, fits: Fits | None = None) -> None:
        """The record and what belongs to it. Raises `NotFound`, `VersionConflict`, `InUse`, or as its guard."""
        guard = self._guards.get(row.name)
        async with self._turn(row, account, key):
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
        """What a create is answered, by the first event that carried its command id: perhaps not this `event`."""
        _refuse_other_content(outcome, request)
        stored = outcome.stored
        if outcome.kind is not OutcomeKind.OK or stored is None:
            raise refusal(row, event.key if event is not None else "", parent, outcome, refs)
        if event is None or stored.key != event.key:
            return Written(stored, replayed=True)
        return Written(replace(stored, record=event.record), replayed=False)


def _owned(row: Resource, body: Document) -> list[Problem]:
    """Members that the server alone writes."""
    return [Problem(f"/{name}", NO_MEMBER) for name in sorted(row.schema.owned & body.keys())]


def _refuse_owned(row: Resource, body: Document) -> None:
    """Raises `ValidationFailed`, with all else that is wrong with the body."""
    if problems := _owned(row, body):
        validated(row, body, problems)


def _refuse_other_content(outcome: Outcome, request: Request) -> None:
    if outcome.content != request.content:
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request.")
