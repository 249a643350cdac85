"""Creates, reads, lists, changes and deletes the records of every resource in the table.

A write reads the records, composes their new documents, judges them, appends one event, and returns when the fold
has decided it: its result is in the view, and every later read returns it. If a record has changed since it was
read, the write is composed again from the record as it is then.
"""

import asyncio
import re
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import orjson

from libs.catalogue.commands import CommandReader, CommandWriter, WriteRequest
from libs.catalogue.contests.contest_votes import ContestVotes
from libs.catalogue.errors import QuotaExceeded, RecordTooLarge, VersionConflict
from libs.catalogue.nested_items import KEY_BYTES
from libs.catalogue.pagination import ListRequest, Page, read_page
from libs.catalogue.references import Refs, collected, enforced, refusal
from libs.catalogue.resource_definition import Fits, Resource, Table, Target
from libs.catalogue.schemas.base import Document, owned_members, unknown_members
from libs.contracts.catalogue_events import (
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
from libs.contracts.limits import CONTEST_BYTES, WRITTEN_TOGETHER
from libs.contracts.validation import Problem, ValidationFailed
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.catalogue.stored_records import Size

MAX_TOGETHER: Final = WRITTEN_TOGETHER.items
"""Records written by one event: their fold is one call of 2 ms at most."""

Change = Callable[[Document | None], Any]
"""Returns the new body for the old document (None: new record); raises to reject the write."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The largest size of all records of an account, by settings of the same names; 0: none."""

    account_max_bytes: int = 0
    account_max_records: int = 0

    def refuse_more(self, size: Size) -> None:
        """Raise `QuotaExceeded` if an account of this size may not grow to it."""
        for used, most, unit, setting in (
            (size.json_bytes, self.account_max_bytes, "bytes of records as JSON", "TALLY_ACCOUNT_MAX_BYTES"),
            (size.records, self.account_max_records, "records", "TALLY_ACCOUNT_MAX_RECORDS"),
        ):
            if most and used > most:
                raise QuotaExceeded(
                    f"The account may store at most {most:,} {unit}, deleted contests included: delete some, "
                    f"or ask the operator to raise {setting}.",
                    limit=most,
                    used=used,
                    setting=setting,
                )


Compose = Callable[[Target], Document]
"""Returns the new valid document of a record as read; raises to reject the write."""


class Written(NamedTuple):
    """A written record. `replayed`: an earlier request with the same idempotency key wrote it."""

    stored: Stored
    replayed: bool


class Draft(NamedTuple):
    """A valid write: `refs` are the enforced references of its document."""

    target: Target
    document: Document
    refs: Refs

    @property
    def growth(self) -> int:
        """The bytes as JSON by which the record grows."""
        before = self.target.before
        return len(orjson.dumps(self.document)) - (0 if before is None else len(before.record.encode()))

    def payload(self) -> dict[str, Any]:
        """Return the members of the event that writes the draft."""
        target, document, row = self.target, self.document, self.target.row
        return {
            "resource": row.name,
            "key": target.key,
            "record": orjson.dumps(document).decode(),
            "parent": (row.parent, target.parent) if row.parent is not None else None,
            "contest": row.contest_of(target.key, target.parent),
            "refs": tuple(dict.fromkeys(self.refs.values())),
            "offers": target.table.offers(row, document, target.key),
            "due": row.due(document),
            "sort_key": row.sort_key(document),
        }


class RecordService:
    """The records of one environment. Other accounts' records are not found.

    `votes` are the environment's, if it has some. `earlier` reads the commands of repeated requests back: without
    it, none can have an idempotency key.
    """

    def __init__(
        self,
        table: Table,
        views: CatalogueViews,
        commands: CommandWriter,
        *,
        votes: ContestVotes | None = None,
        earlier: CommandReader | None = None,
        quota: Quota | None = None,
    ) -> None:
        self.table = table
        self._views = views
        self._commands = commands
        self._votes = votes
        self._earlier = earlier
        self._quota = quota

    async def get(self, row: Resource, account: str, key: str) -> Stored:
        """Return a record. Raises `NotFound`."""
        stored = await self._views.get(account, row.name, key)
        if stored is None:
            raise row.not_found(key)
        return stored

    async def page(self, row: Resource, account: str, request: ListRequest, parent: str = "") -> Page:
        """Return a page of a list. Raises `NotFound` if the parent does not exist, `ValidationFailed` for a broken
        token."""
        if row.parent is not None:
            await self.get(self.table[row.parent], account, parent)
        return await read_page(self._views, account, row, parent, request)

    async def whole(
        self, row: Resource, account: str, records: Sequence[Stored], most_bytes: float
    ) -> dict[str, Stored]:
        """Return the whole records by key, as of now, of records read in part; without deleted ones.

        After `most_bytes` the others are left out.
        """
        keys = [stored.key for stored in records]
        return {stored.key: stored for stored in await self._views.records(account, row.name, keys, most_bytes)}

    async def earlier(self, row: Resource, account: str, request: WriteRequest) -> Written | None:
        """Return the record written by an earlier request with the same idempotency key. Raises as `create`."""
        outcome = await self._commands.earlier(account, request)
        return None if outcome is None else await self._complete(account, _written(row, "", (), outcome)[0])

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
                raise VersionConflict(f"The {row.singular} {target.key} already exists.")
            return target.whole(body, owned)

        key = key or secrets.token_hex(KEY_BYTES)
        return await self._write(row, account, key, compose, request, parent=parent, is_new=True)

    async def patch(
        self,
        row: Resource,
        account: str,
        key: str,
        patch: Document,
        fits: Fits | None = None,
        *,
        creates: bool = False,
        permissions: Collection[str] = (),
    ) -> Stored:
        """Merge `patch` (RFC 7396) into the record, or if it `creates` into an empty one; without changes nothing
        is written. `permissions` are the caller's.

        Raises as `create`, `VersionConflict` unless the record `fits`, `InUse` if the patch removes a part that
        others reference, and the errors of the row's `judge`.
        """
        unknown = owned_members(row.schema, patch) + unknown_members(row.schema, patch)

        def compose(target: Target) -> Document:
            if creates:
                target.require_fit(fits)
            elif target.before is None and unknown:
                raise ValidationFailed(unknown)
            before = {} if creates and target.before is None else target.existing(fits).document
            return target.document(row.merged(before, patch), others=unknown)

        return (await self._write(row, account, key, compose, permissions=permissions)).stored

    async def change(
        self,
        row: Resource,
        account: str,
        key: str,
        change: Callable[[Document], Any],
        owned: Document | None = None,
        permissions: Collection[str] = (),
    ) -> Stored:
        """Change a record as `patch`, with the body that `change` returns; `change` may raise to reject the write.

        `owned` are the server's members.
        """

        def compose(target: Target) -> Document:
            return target.document(change(target.existing().document), owned)

        return (await self._write(row, account, key, compose, permissions=permissions)).stored

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
            row, account, key, lambda target: change(target.existing().document), request, is_server=True
        )

    async def put(
        self,
        row: Resource,
        account: str,
        key: str,
        body: Document,
        *,
        parent: str,
        fits: Fits | None = None,
        owned: Document | None = None,
    ) -> tuple[Stored, Stored | None]:
        """Replace the record by `body`, or create it; `owned` are the server's members.

        Return the new and the old record. Without changes nothing is written. Raises as `create` and `patch`.
        """
        before: Stored | None = None

        def compose(target: Target) -> Document:
            nonlocal before
            before = target.before
            target.require_fit(fits)
            return target.whole(body, owned)

        written = await self._write(row, account, key, compose, parent=parent)
        return written.stored, before

    async def place(self, row: Resource, account: str, key: str, body: Document, request: WriteRequest) -> Written:
        """Create or replace the record at a key chosen by the account, also without changes.

        It is new if `created` equals `updated`. Raises as `create`, and `ValidationFailed` for an invalid key.
        """
        if not re.fullmatch(OWN_KEY_PATTERN, key):
            raise ValidationFailed([Problem("", "a key is 1 to 130 of A-Z a-z 0-9 _ . ~ -, and not . or ..")])
        return await self._write(row, account, key, lambda target: target.whole(body), request, always=True)

    async def write_together(
        self, row: Resource, account: str, parent: str, changes: Sequence[tuple[str, Change]]
    ) -> list[Stored]:
        """Write several records of one parent atomically; each pair holds a key ("": new record) and its change.

        Raises as `create` and `patch`, with pointers that start with the index in `changes`, and
        `ValidationFailed` for a key of another parent, a duplicate, or too many changes.
        """
        if len(changes) > MAX_TOGETHER:
            raise ValidationFailed([Problem("", f"at most {MAX_TOGETHER} records can be written together")])

        drafts: list[Draft] = []
        async with self._commands.attempts(account, row.name, f"{parent}/") as attempts:
            async for head in attempts:
                drafts = await self._drafts(row, account, parent, changes, head["at"])
                writes = (Write(**draft.payload(), expected_version=draft.target.version) for draft in drafts)
                await attempts.append(RecordsWritten(**head, writes=tuple(writes)))
        return [written.stored for written in _written(row, parent, drafts, attempts.outcome)]

    async def _drafts(
        self, row: Resource, account: str, parent: str, changes: Sequence[tuple[str, Change]], at: int
    ) -> list[Draft]:
        above = await self.get(self.table[row.parent or ""], account, parent)
        found = await asyncio.gather(*(self._read(row, account, key) for key, _ in changes))
        drafts: list[Draft] = []
        taken: set[str] = set()
        problems: list[Problem] = []
        for index, (before, (key, change)) in enumerate(zip(found, changes, strict=True)):
            target = self._target(row, key or secrets.token_hex(KEY_BYTES), parent, before, above, at)
            try:
                _require_own(target, key, taken)
                document = target.document(change(target.old))
                drafts.append(await self._draft(account, target, document, f"/{index}"))
                taken.add(target.key)
            except ValidationFailed as error:
                problems += (
                    Problem(f"/{index}{each['pointer']}", each["message"]) for each in error.data["errors"]
                )
            except RecordTooLarge as error:
                problems.append(Problem(f"/{index}", error.message))
        if problems:
            raise ValidationFailed(problems)
        await self._refuse_growth(account, drafts)
        return drafts

    async def delete(self, row: Resource, account: str, key: str, fits: Fits | None = None) -> None:
        """Delete a record and its children.

        Raises `NotFound`, `VersionConflict`, `InUse`, and the errors of the row's `judge_deletion`.
        """
        async with self._commands.attempts(account, row.name, key) as attempts:
            async for head in attempts:
                before = await self._read(row, account, key)
                stored = self._target(row, key, "", before, None, head["at"]).existing(fits)
                judged_by = await row.judge_deletion(account, stored, self._votes)
                command = RecordDeleted(
                    **head,
                    resource=row.name,
                    key=key,
                    expected_version=judged_by.version if fits is None else stored.version,
                    expected_parent=judged_by.parent,
                    contest=row.contest_of(key, stored.parent),
                )
                await attempts.append(command)
        if attempts.outcome.kind is not OutcomeKind.OK:
            raise refusal(row, key, "", attempts.outcome, {})

    async def _write(
        self,
        row: Resource,
        account: str,
        key: str,
        compose: Compose,
        request: WriteRequest | None = None,
        *,
        parent: str = "",
        always: bool = False,
        is_new: bool = False,
        is_server: bool = False,
        permissions: Collection[str] | None = None,
    ) -> Written:
        """Write the document that `compose` returns, `always` or if it is not the current one.

        A record that `is_new` is read only after the fold has found that it exists. Writes of the server have no
        quota.
        """
        draft: Draft | None = None
        async with self._commands.attempts(account, row.name, key, request=request) as attempts:
            async for head in attempts:
                before = None if is_new and attempts.is_first else await self._read(row, account, key)
                above = None
                if before is None and row.parent is not None:
                    above = await self._read(self.table[row.parent], account, parent)
                own_parent = parent if before is None else before.parent
                target = self._target(row, key, own_parent, before, above, head["at"])
                document = compose(target)
                if before is not None and document == before.document and not always:
                    return Written(before, replayed=False)
                draft = await self._draft(account, target, document)
                if not is_server:
                    await self._refuse_growth(account, [draft])
                if before is not None and self._votes is not None:
                    await row.judge_by_votes(before, document, permissions, self._votes)
                members = head | draft.payload()
                if before is None:
                    await attempts.append(RecordCreated(**members))
                else:
                    await attempts.append(RecordChanged(**members, expected_version=before.version))
        drafts = [] if draft is None or attempts.is_replayed else [draft]
        return await self._complete(account, _written(row, parent, drafts, attempts.outcome)[0])

    async def _complete(self, account: str, written: Written) -> Written:
        """Return the write with the record as it was written: outcomes refer to it in the log."""
        if written.stored.record:
            return written
        assert self._earlier is not None, "a request with an idempotency key"
        record = await self._earlier.record(account, written.stored)
        return written._replace(stored=replace(written.stored, record=record))

    async def _read(self, row: Resource, account: str, key: str) -> Stored | None:
        return await self._views.get(account, row.name, key) if key else None

    def _target(
        self, row: Resource, key: str, parent: str, before: Stored | None, above: Stored | None, at: int
    ) -> Target:
        return Target(self.table, row, key, parent, before, above, at, self._votes)

    async def _draft(self, account: str, target: Target, document: Document, where: str = "") -> Draft:
        row, before = target.row, target.before
        refs = collected(self.table, row, document, target.parent, target.key, where)
        held = {} if before is None else self.table.references(row, before.document, before.parent)
        return Draft(target, document, await enforced(self._views, self.table, account, refs, held.values()))

    async def _refuse_growth(self, account: str, drafts: Sequence[Draft]) -> None:
        """Raise `QuotaExceeded` and `RecordTooLarge` if the account, or the contest of the drafts, would grow
        beyond its limit. Concurrent writes may exceed it together.
        """
        if self._quota is None:
            return
        new = [draft for draft in drafts if draft.target.before is None]
        grown = sum(draft.growth for draft in drafts)
        if not new and grown <= 0:
            return
        target = drafts[0].target
        contest = target.row.contest_of(target.key, target.parent)
        of_account, of_contest = await self._views.sizes(account, contest)
        self._quota.refuse_more(Size(of_account.json_bytes + grown, of_account.records + len(new)))
        if contest is not None and of_contest.json_bytes + grown > CONTEST_BYTES:
            raise RecordTooLarge(
                f"A contest with its participants and vote sources may have at most {CONTEST_BYTES:,} bytes as "
                "JSON: shorten them, or divide the contest.",
                max_bytes=CONTEST_BYTES,
            )


def _require_own(target: Target, key: str, taken: Collection[str]) -> None:
    """Check that an existing record of a joint write belongs to its parent and occurs once."""
    if not key:
        return
    stored, singular = target.existing(), target.row.singular
    if stored.parent != target.parent:
        raise ValidationFailed([Problem("", f"the {singular} {key} belongs to another parent")])
    if key in taken:
        raise ValidationFailed([Problem("", f"the {singular} {key} occurs twice")])


def _written(row: Resource, parent: str, drafts: Sequence[Draft], outcome: Outcome) -> list[Written]:
    """Return the written records; without drafts an earlier request wrote them. Raises the API error of a rejected
    write.
    """
    keys = [draft.target.key for draft in drafts]
    if outcome.kind is not OutcomeKind.OK:
        missing = next((key for key in keys if (row.name, key) in outcome.refs), "")
        refs = {where: ref for draft in drafts for where, ref in draft.refs.items()}
        raise refusal(row, missing, parent, outcome, refs)
    if keys != [stored.key for stored in outcome.written]:
        return [Written(stored, replayed=True) for stored in outcome.written]
    return [
        Written(replace(stored, record=stored.record or orjson.dumps(draft.document).decode()), replayed=False)
        for stored, draft in zip(outcome.written, drafts, strict=True)
    ]
