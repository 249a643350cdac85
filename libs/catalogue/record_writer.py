"""Writes documents as events: each write reads the records, builds the drafts, and appends them if unchanged."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from libs.catalogue.command_writer import CommandWriter, WriteRequest
from libs.catalogue.cross_account_refs import OwnerReader, without_shared
from libs.catalogue.outcome_errors import Refs, no_such, refusal
from libs.catalogue.pagination import ListReader
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
from libs.catalogue.resource_definition import Document, Resource, Table
from libs.contracts.catalogue_events import CatalogueCommand, Outcome, OutcomeKind, RecordDeleted, Stored
from libs.contracts.validation import Problem, ValidationFailed

Compose = Callable[[Target], Document]
"""Returns the new valid document of a record as read; raises to reject the write."""
Change = Callable[[Document | None], Any]
"""Returns the new body for the old document (None: new record); raises to reject the write."""
Guard = Callable[[str, Stored], Awaitable[int]]
"""Raises to reject the deletion of an account's record, or returns the checked version of its parent."""
ChangeGuard = Callable[[Stored, Document], Awaitable[None]]
"""Raises to reject the change of a record to a new document."""


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


class RecordWriter:
    """Writes the records of one environment."""

    def __init__(
        self,
        table: Table,
        views: Reader,
        writer: CommandWriter,
        change_guards: Mapping[str, ChangeGuard] | None = None,
    ) -> None:
        self._table = table
        self._change_guards = change_guards or {}
        self._builder = RecordBuilder(table)
        self._views = views
        self._writer = writer

    async def earlier(self, row: Resource, account: str, request: WriteRequest) -> Written | None:
        """Return the record written by an earlier request with the same idempotency key."""
        outcome = await self._writer.earlier(account, request)
        return None if outcome is None else _written(row, "", None, outcome)[0]

    async def write(
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
                above = await self._found(self._table[row.parent], account, parent)
            own_parent = parent if before is None else before.parent
            target = Target(row, key, own_parent, before, above, head["at"])
            draft = self._builder.draft(target, compose(target))
            if before is not None and draft.document == before.document and not always:
                return Attempt([draft], draft.refs, None)
            if before is not None and row.name in self._change_guards:
                await self._change_guards[row.name](before, draft.document)
            draft = await self._enforced(account, draft)
            return Attempt([draft], draft.refs, event_of(head, draft))

        decided = await self._writer.write(account, (row.name, key), prepare, request)
        return _written(row, parent, *decided)[0]

    async def write_together(
        self, row: Resource, account: str, parent: str, changes: Sequence[tuple[str, Change]]
    ) -> list[Stored]:
        """Write several records of one parent, as `RecordService.write_together`."""

        async def prepare(head: dict[str, Any]) -> Attempt:
            above_row = self._table[row.parent or ""]
            above = await self._found(above_row, account, parent)
            if above is None:
                raise no_such(above_row, parent)
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

    async def delete(self, row: Resource, account: str, key: str, fits: Fits | None, guard: Guard | None) -> None:
        """Delete a record and its children, as `RecordService.delete`."""

        async def prepare(head: dict[str, Any]) -> Attempt:
            target = Target(row, key, "", await self._found(row, account, key), None, head["at"])
            stored = target.existing(fits)
            is_checked = fits is not None or row.judge_deletion is not None
            if row.judge_deletion is not None:
                row.judge_deletion(stored.document)
            event = RecordDeleted(
                **head,
                resource=row.name,
                key=key,
                expected_version=stored.version if is_checked else None,
                expected_parent=None if guard is None else await guard(account, stored),
                contest=contest_of(row, key, stored.parent),
            )
            return Attempt((), {}, event)

        _, outcome = await self._writer.write(account, (row.name, key), prepare)
        if outcome is not None and outcome.kind is not OutcomeKind.OK:
            raise refusal(row, key, "", outcome, {})

    async def _found(self, row: Resource, account: str, key: str) -> Stored | None:
        return await self._views.get(account, row.name, key) if key else None

    async def _enforced(self, account: str, draft: Draft) -> Draft:
        """Return the draft without references to other accounts' shared records, which are not enforced."""
        before = draft.target.before
        held = {} if before is None else self._table.references(draft.target.row, before.document, before.parent)
        return draft.holding(await without_shared(self._views, self._table, account, draft.refs, held.values()))


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
