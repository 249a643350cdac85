"""Creates, reads, lists, changes and deletes the records of every resource in the table.

A write is validated, appended as an event, and returns when the fold has decided it: its result is in the view,
and every later read returns it.
"""

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from libs.catalogue.command_writer import CommandWriter, WriteRequest
from libs.catalogue.merge_patch import keep_item_members, merge_patch
from libs.catalogue.outcome_errors import exists, has_changed, no_such
from libs.catalogue.pagination import ListRequest, Page, read_page
from libs.catalogue.record_builder import KEY_BYTES, Fits, RecordBuilder, Target
from libs.catalogue.record_writer import Change, ChangeGuard, Guard, Reader, RecordWriter, Written
from libs.catalogue.resource_definition import Document, Resource, Table
from libs.catalogue.schemas.base import UNKNOWN_MEMBER, unknown_members
from libs.contracts.catalogue_events import OWN_KEY_PATTERN, Stored
from libs.contracts.validation import Problem, ValidationFailed

MAX_TOGETHER: Final = 100
"""Records written by one event: their fold is one call of 2 ms at most."""


class RecordService:
    """The records of one environment. Other accounts' records are not found.

    By resource name, `guards` check deletions and `change_guards` changes, and `new_members` return the server's
    members of new records. Every write is a `CommandWriter.write`: after a lost race, the given functions are
    called again with the records as they are then.
    """

    def __init__(
        self,
        table: Table,
        views: Reader,
        writer: CommandWriter,
        guards: Mapping[str, Guard] | None = None,
        change_guards: Mapping[str, ChangeGuard] | None = None,
        new_members: Mapping[str, Callable[[], Document]] | None = None,
    ) -> None:
        self.table = table
        self._new_members = new_members or {}
        self._builder = RecordBuilder(table)
        self._guards = guards or {}
        self._views = views
        self._writer = RecordWriter(table, views, writer, change_guards)

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
        return await read_page(self._views, account, row, parent, request)

    async def earlier(self, row: Resource, account: str, request: WriteRequest) -> Written | None:
        """Return the record written by an earlier request with the same idempotency key. Raises as `create`."""
        return await self._writer.earlier(row, account, request)

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
        exists), and the errors of `CommandWriter.record`.
        """

        def compose(target: Target) -> Document:
            if target.before is not None:
                raise exists(row, target.key)
            members = self._new_members[row.name]() if row.name in self._new_members else {}
            return self._builder.document(target, body, owned=members | (owned or {}), others=_owned(row, body))

        key = key or secrets.token_hex(KEY_BYTES)
        return await self._writer.write(row, account, key, compose, request, parent=parent, new=True)

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

        return (await self._writer.write(row, account, key, compose)).stored

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

        return (await self._writer.write(row, account, key, compose)).stored

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
        return await self._writer.write(
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

        written = await self._writer.write(row, account, key, compose, parent=parent)
        return written.stored, before

    async def merge(
        self, row: Resource, account: str, key: str, patch: Document, fits: Fits | None = None
    ) -> Stored:
        """Merge `patch` into the record as `patch`, or into an empty one if there is none. Raises as `put`."""
        unknown = _owned(row, patch) + unknown_members(row.schema, patch)

        def compose(target: Target) -> Document:
            if fits is not None and (target.before is None or not fits(target.before)):
                raise has_changed(row, key)
            before = {} if target.before is None else target.before.document
            return self._builder.document(target, merge_patch(before, patch), others=unknown)

        return (await self._writer.write(row, account, key, compose)).stored

    async def place(self, row: Resource, account: str, key: str, body: Document, request: WriteRequest) -> Written:
        """Create or replace the record at a key chosen by the account, also without changes.

        It is new if `created` equals `updated`. Raises as `create`, and `ValidationFailed` for an invalid key.
        """
        if not re.fullmatch(OWN_KEY_PATTERN, key):
            raise ValidationFailed([Problem("", "a key is 1 to 130 of A-Z a-z 0-9 _ . ~ -, and not . or ..")])

        def compose(target: Target) -> Document:
            return self._builder.document(target, body, others=_owned(row, body))

        return await self._writer.write(row, account, key, compose, request, always=True)

    async def write_together(
        self, row: Resource, account: str, parent: str, changes: Sequence[tuple[str, Change]]
    ) -> list[Stored]:
        """Write several records of one parent atomically; each pair holds a key ("": new record) and its change.

        Raises as `create` and `patch`, with pointers that start with the index in `changes`, and
        `ValidationFailed` for a key of another parent, a duplicate, or too many changes.
        """
        if len(changes) > MAX_TOGETHER:
            raise ValidationFailed([Problem("", f"at most {MAX_TOGETHER} records can be written together")])
        return await self._writer.write_together(row, account, parent, changes)

    async def delete(self, row: Resource, account: str, key: str, fits: Fits | None = None) -> None:
        """Delete a record and its children. Raises `NotFound`, `VersionConflict`, `InUse`, or as its guard."""
        await self._writer.delete(row, account, key, fits, self._guards.get(row.name))


def _owned(row: Resource, body: Document) -> list[Problem]:
    """Return a problem for each member of `body` that only the server writes."""
    return [Problem(f"/{name}", UNKNOWN_MEMBER) for name in sorted(row.schema.owned & body.keys())]
