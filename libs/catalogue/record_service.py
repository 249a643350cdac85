"""Creates, reads, lists, changes and deletes the records of every resource in the table.

A write is validated, appended as an event, and returns when the fold has decided it: its result is in the view,
and every later read returns it.
"""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from libs.catalogue.cross_account_refs import OwnerReader, without_shared
from libs.catalogue.merge_patch import keep_item_members, merge_patch
from libs.catalogue.outcome_errors import Refs, exists, has_changed, no_such, refusal
from libs.catalogue.pagination import ListReader, ListRequest, Page, read_page
from libs.catalogue.record_builder import (
    KEY_BYTES,
    Draft,
    Fits,
    RecordBuilder,
    Target,
    contest_of,
    event_of,
    event_together,
)
from libs.catalogue.resource import Document, Resource, Table
from libs.catalogue.schemas.base import UNKNOWN_MEMBER, unknown_members
from libs.catalogue.writer import CatalogueWriter, WriteRequest
from libs.contracts.catalogue import (
    OWN_KEY_PATTERN,
    CatalogueCommand,
    Outcome,
    OutcomeKind,
    RecordDeleted,
    Stored,
)
from libs.contracts.validation import Problem, ValidationFailed

Compose = Callable[[Target], Document]
"""Returns the new valid document of a record as read; raises to reject the write."""
Change = Callable[[Document | None], Any]
"""Returns the new body for the old document (None: new record); raises to reject the write."""
Guard = Callable[[str, Stored], Awaitable[int]]
"""Raises to reject the deletion of an account's record, or returns the checked version of its parent."""


class Reader(ListReader, OwnerReader, Protocol):
    """Reads records from the catalogue's views."""


class Written(NamedTuple):
    """A written record. `replayed`: an earlier request with the same idempotency key wrote it."""

    stored: Stored
    replayed: bool


class Attempt(NamedTuple):
    """Writes prepared from records as read; without a `command`, they change nothing."""

    drafts: Sequence[Draft]
    refs: Refs
    command: CatalogueCommand | None


class RecordService:
    """The records of one environment. Other accounts' records are not found.

    `guards` check deletions, by resource name. Every write is a `CatalogueWriter.write`: after a lost race, the
    given functions are called again with the records as they are then.
    """

    def __init__(
        self, table: Table, views: Reader, writer: CatalogueWriter, guards: Mapping[str, Guard] | None = None
    ) -> None:
        self.table = table
        self._builder = RecordBuilder(table)
        self._guards = guards or {}
        self._views = views
        self._writer = writer

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

    async def earlier(self, row: Resource, account: str, request: WriteRequest) -> Written | None:
        """Return the record written by an earlier request with the same idempotency key. Raises as `create`."""
        outcome = await self._writer.earlier(account, request)
        return None if outcome is None else _written(row, "", None, outcome)[0]

    async def create(
        self,
        row: Resource,
        account: str,
        body: Document,
        request: WriteRequest,
        *,
        parent: str = "",
        key: str = "",
        owned: Document | None = None,
    ) -> Written:
        """Create a record, with a random key unless `key` is given; `owned` are the server's members.

        Raises `ValidationFailed`, `NotFound` (the parent), `IdempotencyKeyReused`, `VersionConflict` (a given key
        exists), and what `CatalogueWriter.record` raises.
        """

        def compose(target: Target) -> Document:
            if target.before is not None:
                raise exists(row, target.key)
            return self._builder.document(target, body, owned=owned, others=_owned(row, body))

        key = key or secrets.token_hex(KEY_BYTES)
        return await self._write(row, account, key, compose, request, parent=parent, new=True)

    async def patch(
        self, row: Resource, account: str, key: str, patch: Document, fits: Fits | None = None
    ) -> Stored:
        """Merge `patch` (RFC 7396) into the record; a patch without changes writes nothing.

        Raises as `create`, `VersionConflict` unless the record `fits`, `InUse` if the patch removes a part that
        others reference, and the errors of the row's `judge`.
        """
        unknown = _owned(row, patch) + unknown_members(row.schema, patch)

        def compose(target: Target) -> Document:
            if target.before is None and unknown:
                raise ValidationFailed(unknown)
            before = target.existing(fits).document
            merged = keep_item_members(row.kept, before, merge_patch(before, patch))
            return self._builder.document(target, merged, others=unknown)

        return (await self._write(row, account, key, compose)).stored

    async def change(
        self,
        row: Resource,
        account: str,
        key: str,
        change: Callable[[Document], Any],
        owned: Document | None = None,
    ) -> Stored:
        """Change a record as `patch`, with the body that `change` returns; `change` may raise to reject the write.

        `owned` are the server's members.
        """

        def compose(target: Target) -> Document:
            return self._builder.document(target, change(target.existing().document), owned=owned)

        return (await self._write(row, account, key, compose)).stored

    async def amend(
        self,
        row: Resource,
        account: str,
        key: str,
        change: Callable[[Document], Document],
        request: WriteRequest | None = None,
    ) -> Written:
        """Change a record on behalf of the server: `change` returns the whole document, also the owned members.

        It may raise to reject the write. Without changes nothing is written.
        """
        return await self._write(
            row, account, key, lambda target: change(target.existing().document), request or WriteRequest.once()
        )

    async def put(
        self, row: Resource, account: str, key: str, body: Document, *, parent: str, fits: Fits | None = None
    ) -> tuple[Stored, Stored | None]:
        """Replace the record by `body`, or create it.

        Return the new and the old record. Without changes nothing is written. Raises as `create` and `patch`.
        """
        before: Stored | None = None

        def compose(target: Target) -> Document:
            nonlocal before
            before = target.before
            if fits is not None and (before is None or not fits(before)):
                raise has_changed(row, key)
            return self._builder.document(target, body, others=_owned(row, body))

        written = await self._write(row, account, key, compose, parent=parent)
        return written.stored, before

    async def place(self, row: Resource, account: str, key: str, body: Document, request: WriteRequest) -> Written:
        """Create or replace the record at a key chosen by the account, also without changes.

        It is new if `created` equals `updated`. Raises as `create`, and `ValidationFailed` for an invalid key.
        """
        if not re.fullmatch(OWN_KEY_PATTERN, key):
            raise ValidationFailed([Problem("", "a key is 1 to 130 of A-Z a-z 0-9 _ . ~ -, and not . or ..")])

        def compose(target: Target) -> Document:
            return self._builder.document(target, body, others=_owned(row, body))

        return await self._write(row, account, key, compose, request, always=True)

    async def write_together(
        self, row: Resource, account: str, parent: str, changes: Sequence[tuple[str, Change]]
    ) -> list[Stored]:
        """Write several records of one parent atomically; each pair holds a key ("": new record) and its change.

        Raises as `create` and `patch`, with pointers that start with the index in `changes`, and
        `ValidationFailed` for a key of another parent or a duplicate.
        """

        async def prepare(head: dict[str, Any]) -> Attempt:
            above = await self.get(self.table[row.parent or ""], account, parent)
            found = await asyncio.gather(*(self._found(row, account, key) for key, _ in changes))
            drafts: list[Draft] = []
            problems: list[Problem] = []
            for index, (before, (key, change)) in enumerate(zip(found, changes, strict=True)):
                target = Target(row, key or secrets.token_hex(KEY_BYTES), parent, before, above, head["at"])
                try:
                    _require_own(target, key, [draft.target.key for draft in drafts])
                    body = change(None if before is None else before.document)
                    drafts.append(self._builder.draft(target, self._builder.document(target, body)))
                except ValidationFailed as error:
                    problems += (
                        Problem(f"/{index}{each['pointer']}", each["message"]) for each in error.data["errors"]
                    )
            if problems:
                raise ValidationFailed(problems)
            drafts = [await self._enforced(account, draft) for draft in drafts]
            refs = {f"/{n}{where}": ref for n, draft in enumerate(drafts) for where, ref in draft.refs.items()}
            return Attempt(drafts, refs, event_together(head, drafts))

        decided = await self._writer.write(account, (row.name, f"{parent}/"), prepare)
        return [written.stored for written in _written(row, parent, *decided)]

    async def delete(self, row: Resource, account: str, key: str, fits: Fits | None = None) -> None:
        """Delete a record and its children. Raises `NotFound`, `VersionConflict`, `InUse`, or as its guard."""
        guard = self._guards.get(row.name)

        async def prepare(head: dict[str, Any]) -> Attempt:
            target = Target(row, key, "", await self._found(row, account, key), None, head["at"])
            stored = target.existing(fits)
            event = RecordDeleted(
                **head,
                resource=row.name,
                key=key,
                expected_version=None if fits is None else stored.version,
                expected_parent=None if guard is None else await guard(account, stored),
                contest=contest_of(row, key, stored.parent),
            )
            return Attempt((), {}, event)

        _, outcome = await self._writer.write(account, (row.name, key), prepare)
        if outcome is not None and outcome.kind is not OutcomeKind.OK:
            raise refusal(row, key, "", outcome, {})

    async def _write(
        self,
        row: Resource,
        account: str,
        key: str,
        compose: Compose,
        request: WriteRequest | None = None,
        *,
        parent: str = "",
        new: bool = False,
        always: bool = False,
    ) -> Written:
        """Write the document that `compose` returns, `always` or if it is not the current one.

        A `new` record is not read first: the fold decides whether it exists.
        """

        async def prepare(head: dict[str, Any]) -> Attempt:
            nonlocal new
            before, new = None if new else await self._found(row, account, key), False
            above = None
            if before is None and row.parent is not None:
                above = await self._found(self.table[row.parent], account, parent)
            own_parent = parent if before is None else before.parent
            target = Target(row, key, own_parent, before, above, head["at"])
            draft = self._builder.draft(target, compose(target))
            if before is not None and draft.document == before.document and not always:
                return Attempt([draft], draft.refs, None)
            draft = await self._enforced(account, draft)
            return Attempt([draft], draft.refs, event_of(head, draft))

        decided = await self._writer.write(account, (row.name, key), prepare, request)
        return _written(row, parent, *decided)[0]

    async def _found(self, row: Resource, account: str, key: str) -> Stored | None:
        return await self._views.get(account, row.name, key) if key else None

    async def _enforced(self, account: str, draft: Draft) -> Draft:
        """Return the draft without references to other accounts' shared records, which are not enforced."""
        before = draft.target.before
        held = {} if before is None else self.table.references(draft.target.row, before.document, before.parent)
        return draft.holding(await without_shared(self._views, self.table, account, draft.refs, held.values()))


def _written(row: Resource, parent: str, attempt: Attempt | None, outcome: Outcome | None) -> list[Written]:
    """Return the written records, or the unchanged ones. Raises the API error of a rejected write."""
    drafts, refs, _ = attempt or Attempt((), {}, None)
    if outcome is None:
        return [Written(draft.target.existing(), replayed=False) for draft in drafts]
    keys = [draft.target.key for draft in drafts]
    if outcome.kind is not OutcomeKind.OK:
        missing = next((key for key in keys if (row.name, key) in outcome.refs), "")
        raise refusal(row, missing, parent, outcome, refs)
    if keys != [stored.key for stored in outcome.written]:
        return [Written(stored, replayed=True) for stored in outcome.written]
    return [
        Written(replace(stored, record=stored.record or draft.payload["record"]), replayed=False)
        for stored, draft in zip(outcome.written, drafts, strict=True)
    ]


def _require_own(target: Target, key: str, taken: Sequence[str]) -> None:
    """Check that an existing record of a joint write belongs to its parent and occurs once."""
    if not key:
        return
    stored, singular = target.existing(), target.row.singular
    if stored.parent != target.parent:
        raise ValidationFailed([Problem("", f"the {singular} {key} belongs to another parent")])
    if key in taken:
        raise ValidationFailed([Problem("", f"the {singular} {key} occurs twice")])


def _owned(row: Resource, body: Document) -> list[Problem]:
    """Return a problem for each member of `body` that only the server writes."""
    return [Problem(f"/{name}", UNKNOWN_MEMBER) for name in sorted(row.schema.owned & body.keys())]
