"""Records of every resource: made, read, listed, changed and deleted, by the rows of the table.

A write is validated, recorded as an event, and answered when the fold has judged it: what this returns is what the
view holds, and every read that follows sees it.
"""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

import orjson
from pydantic import ValidationError

from libs.catalogue.errors import VersionConflict
from libs.catalogue.merge import merge_patch
from libs.catalogue.pages import ListReader, ListRequest, Page, read_page
from libs.catalogue.refusals import Refs, has_changed, no_such, refusal
from libs.catalogue.schemas.base import NO_MEMBER, problems_of
from libs.catalogue.table import Document, Resource, Table
from libs.catalogue.writing import FOLD_DEADLINE_S, Request, Writer
from libs.contracts.catalogue import (
    KEY_PATTERN,
    REF_KEY_PATTERN,
    Outcome,
    OutcomeKind,
    RecordChanged,
    RecordCreated,
    RecordDeleted,
    Ref,
    Stored,
)
from libs.contracts.problems import Problem, ValidationFailed
from libs.tally.errors import IdempotencyKeyReused, ViewsUnavailable

Fits = Callable[[Stored], bool]
"""The caller's precondition on the version that a write starts from."""
Guard = Callable[[str, Stored], Awaitable[int]]
"""Refuses the deletion of an account's record by raising, or gives the version of its parent that it judged by."""

KEY_BYTES: Final = 12
REF_KEY: Final = re.compile(REF_KEY_PATTERN)


class Reader(ListReader, Protocol):
    """What is needed of the catalogue's views."""

    async def get(self, account: str, resource: str, key: str) -> Stored | None: ...


class Written(NamedTuple):
    """A record as a command left it. `replayed`: an earlier request with the same idempotency key made it."""

    stored: Stored
    replayed: bool


class Engine:
    """The records of one world. Another account's records are not there for it.

    `guards` look at deletions, by the name of the resource.
    """

    def __init__(
        self, table: Table, views: Reader, writer: Writer, guards: Mapping[str, Guard] | None = None
    ) -> None:
        self.table = table
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
        exists), and what `Writer.record` raises.
        """
        if (earlier := await self.earlier(row, account, request, parent)) is not None:
            return earlier
        _refuse_owned(row, body)
        document = self._validated(row, body) | (owned or {})
        if row.parent is not None:
            above = await self.get(self.table[row.parent], account, parent)
            if row.complete is not None:
                row.complete(document, above.document)
        at = self._writer.now()
        if row.arrange is not None:
            row.arrange(None, document, at)
        key = key or secrets.token_hex(KEY_BYTES)
        refs = self._references(row, document, parent)
        event = RecordCreated(
            account=account,
            command_id=request.command_id,
            at=at,
            content=request.content,
            resource=row.name,
            key=key,
            record=orjson.dumps(document).decode(),
            parent=(row.parent, parent) if row.parent is not None else None,
            contest=_contest(row, key, parent),
            refs=_distinct(refs),
            offers=self.table.offers(row, document, key),
            due=row.due(document),
        )
        outcome = await self._writer.record(event)
        return self._written(row, outcome, request, parent, refs, event)

    async def patch(
        self, row: Resource, account: str, key: str, patch: Document, fits: Fits | None = None
    ) -> Stored:
        """The record merged with `patch` (RFC 7396); a patch that changes nothing writes nothing.

        With `fits` a lost race is a `VersionConflict`; without, the patch is merged again. Raises as `create`
        does, `InUse` where it takes away a part that others refer to, and what the row's `judge` raises.
        """
        _refuse_owned(row, patch)
        return await self.change(row, account, key, lambda before: merge_patch(before, patch), fits)

    async def change(
        self, row: Resource, account: str, key: str, change: Callable[[Document], Any], fits: Fits | None = None
    ) -> Stored:
        """As `patch`, with a body that `change` makes of the document; it may raise to refuse."""
        async with self._turn(row, account, key):
            while True:
                stored = await self.get(row, account, key)
                if fits is not None and not fits(stored):
                    raise has_changed(row, key)
                changed = await self._change(row, account, stored, change(stored.document))
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
        if not re.fullmatch(KEY_PATTERN, key):
            raise ValidationFailed([Problem("", "a key is 1 to 130 of A-Z a-z 0-9 _ . ~ -")])
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
        self, row: Resource, account: str, stored: Stored, body: Document, request: Request | None = None
    ) -> Stored | None:
        """One attempt; None when another write came first.

        Without a `request`, what changes nothing writes nothing.
        """
        before = stored.document
        owned = {name: before[name] for name in row.schema.owned if name in before}
        document = self._validated(row, body) | owned
        if row.arrange is not None:
            row.arrange(before, document, self._writer.now())
        if row.judge is not None and document != before:
            row.judge(before, document)
        return await self._write(row, account, stored, document, request)

    async def _write(
        self, row: Resource, account: str, stored: Stored, document: Document, request: Request | None = None
    ) -> Stored | None:
        """As `_change`, of what was judged already."""
        if request is None and document == stored.document:
            return stored
        request = request or Request.once()
        refs = self._references(row, document, stored.parent)
        event = RecordChanged(
            account=account,
            command_id=request.command_id,
            at=self._writer.now(),
            content=request.content,
            resource=row.name,
            key=stored.key,
            record=orjson.dumps(document).decode(),
            parent=(row.parent, stored.parent) if row.parent is not None else None,
            contest=_contest(row, stored.key, stored.parent),
            refs=_distinct(refs),
            offers=self.table.offers(row, document, stored.key),
            due=row.due(document),
            expected_version=stored.version,
        )
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
                    account=account,
                    command_id=Request.once().command_id,
                    at=self._writer.now(),
                    resource=row.name,
                    key=key,
                    expected_version=None if fits is None else stored.version,
                    expected_parent=None if guard is None else await guard(account, stored),
                    contest=_contest(row, key, stored.parent),
                )
                outcome = await self._writer.record(event)
                if outcome.kind is OutcomeKind.OK:
                    return
                if outcome.kind is not OutcomeKind.CONFLICT:
                    raise refusal(row, key, stored.parent, outcome, {})

    def _references(self, row: Resource, document: Document, parent: str) -> Refs:
        """Raises `ValidationFailed` where something is named that no record can be called."""
        refs = self.table.references(row, document, parent)
        nameless = [(where, ref) for where, ref in refs.items() if not REF_KEY.fullmatch(ref[1])]
        if nameless:
            raise ValidationFailed(Problem(where, f"there is no {name} {key}") for where, (name, key) in nameless)
        return refs

    def _validated(self, row: Resource, body: Any) -> Document:
        try:
            return row.schema.model_validate(body).stored()
        except ValidationError as error:
            raise problems_of(error) from None

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


def _refuse_owned(row: Resource, body: Document) -> None:
    if named := sorted(row.schema.owned & body.keys()):
        raise ValidationFailed(Problem(f"/{name}", NO_MEMBER) for name in named)


def _refuse_other_content(outcome: Outcome, request: Request) -> None:
    if outcome.content != request.content:
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request.")


def _contest(row: Resource, key: str, parent: str) -> str | None:
    """The contest whose configuration a change of this record raises."""
    match row.contest:
        case "self":
            return key
        case "parent":
            return parent
    return None


def _distinct(refs: Refs) -> tuple[Ref, ...]:
    return tuple(dict.fromkeys(refs.values()))
