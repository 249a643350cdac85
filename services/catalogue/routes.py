"""Routes of the current API, generated from the table of resources, and the filters of resources' lists."""

import re
import time
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Annotated, Any, Final, Literal, NamedTuple

import orjson
from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import AfterValidator, WithJsonSchema
from starlette.responses import Response

from libs.catalogue.commands import WriteRequest
from libs.catalogue.contests.closing_record import phase_of
from libs.catalogue.pagination import PAGE_BYTES, ListRequest, Page, bytes_of, ranked_page, size_of
from libs.catalogue.records import RecordService, Written
from libs.catalogue.resource_definition import Fits, Resource, Table
from libs.catalogue.schemas.base import Document
from libs.catalogue.schemas.content import ArticleType
from libs.catalogue.schemas.contest import ContestType, Status
from libs.concurrency.turns import in_turns
from libs.contracts.catalogue_events import OWN_KEY_PATTERN, ApiKey, Stored
from libs.contracts.limits import TITLE
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.contest import Phase
from libs.tally.errors import ViewsUnavailable
from libs.tally.time_conversion import microseconds, parse_timestamp
from libs.views.catalogue.catalogue_views import Order
from libs.web.door.auth import Authenticator
from libs.web.door.request_parsing import read_object
from libs.web.door.typed_routes import (
    LISTED,
    IdempotencyKey,
    IfMatch,
    IfNoneMatch,
    Limit,
    Next,
    Permitted,
    TypedRoute,
)
from libs.web.responses import etag, json_response, precondition_fails
from libs.web.server.http_service import ByVotes, Complete
from services.catalogue import openapi
from services.catalogue.openapi import Tags, UpdatedSince

WORD: Final = re.compile(r"\b\w+")


class ListSelection(NamedTuple):
    """The records of a list and their order, newest first by default; `by_votes` is the order of the counts."""

    fits: Fits | None = None
    order: Order = "created"
    by_votes: bool = False

    @property
    def has_order(self) -> bool:
        return self.by_votes or self.order != "created"


def _require_word(text: str) -> str:
    if not _words(text):
        raise ValueError("must have a word or a symbol")
    return text


Words = Annotated[
    str | None,
    AfterValidator(_require_word),
    Query(
        min_length=1,
        max_length=100,
        description="Records whose title has a word that begins with each of these words, in any order and case. "
        "A symbol such as an emoji is a word of its own.",
    ),
]
PhaseIs = Annotated[Phase | None, Query(description="Contests in this phase now.")]
ContestTypeIs = Annotated[ContestType | None, Query(description="Contests of this `contest_type`.")]
StatusIs = Annotated[Status | None, Query(description="Participants with this status.")]
ParticipantsBy = Annotated[
    Literal["running_number", "votes"] | None,
    Query(
        description="`running_number`: ascending. `votes`: by `vote_count`, most first, as counted at the "
        "request of each page; needs `results:read` and, while the counts are hidden, `results:read_hidden`."
    ),
]
TimeslotsBy = Annotated[
    Literal["start"] | None, Query(description="`start`: ascending, timeslots without a start at the end.")
]
ArticleTypeIs = Annotated[ArticleType | None, Query(description="Articles of this type.")]
IsTemplate = Annotated[bool, Query(description="Only templates; without it, none.")]
Scheduled = Annotated[bool, Query(description="Only articles with `publish` in the future; without it, none.")]


async def contests(phase: PhaseIs = None, type: ContestTypeIs = None, q: Words = None) -> ListSelection:
    now, wanted = _now(), titled(q)
    if type is not None:
        wanted.append(lambda stored: stored.document.get("contest_type", "voteonly") == type)
    if phase is not None:
        wanted.append(lambda stored: phase_of(stored.document, now) == phase)
    return ListSelection(together(wanted))


async def participants(status: StatusIs = None, q: Words = None, order: ParticipantsBy = None) -> ListSelection:
    wanted = titled(q)
    if status is not None:
        wanted.append(lambda stored: stored.document.get("status", "approved") == status)
    numbered: Order = "running_number" if order == "running_number" else "created"
    return ListSelection(together(wanted), numbered, by_votes=order == "votes")


async def timeslots(order: TimeslotsBy = None) -> ListSelection:
    return ListSelection(order="created" if order is None else "sort_key")


async def articles(
    type: ArticleTypeIs = None, q: Words = None, is_template: IsTemplate = False, scheduled: Scheduled = False
) -> ListSelection:
    now, wanted = _now(), titled(q)
    if type is not None:
        wanted.append(lambda stored: stored.document.get("type", "normal") == type)

    def is_listed(stored: Stored) -> bool:
        document, publish = stored.document, stored.document.get("publish")
        ahead = publish is not None and microseconds(parse_timestamp(publish)) > now
        return ahead == scheduled and bool(document.get("is_template")) == is_template

    return ListSelection(together([is_listed, *wanted]))


async def everything() -> ListSelection:
    return ListSelection()


FILTERS: Final[Mapping[str, Callable[..., Awaitable[ListSelection]]]] = {
    "contests": contests,
    "participants": participants,
    "timeslots": timeslots,
    "articles": articles,
}
"""Dependencies by resource; the lists of all others have no parameters of their own."""


def titled(words: str | None) -> list[Fits]:
    """Return the condition that each of the words begins a word of a record's title; none without words.

    Of a title stored before titles had a limit, the beginning is searched.
    """
    wanted = _words(words or "")

    def fits(stored: Stored) -> bool:
        title = _words((stored.document.get("title") or "")[: TITLE.code_points])
        return all(any(word.startswith(prefix) for word in title) for prefix in wanted)

    return [fits] if wanted else []


def together(wanted: Sequence[Fits]) -> Fits | None:
    """Return whether all of the conditions hold; None without any."""
    return (lambda stored: all(fits(stored) for fits in wanted)) if wanted else None


def _words(text: str) -> list[str]:
    """Split into words without case and accents, and into the symbols outside of ASCII.

    Each character is decomposed by itself: sorting a run of accents, which are left out, would be quadratic.
    """
    decomposed = text if text.isascii() else "".join(unicodedata.normalize("NFKD", each) for each in text)
    words = WORD.findall("".join(each for each in decomposed if not unicodedata.combining(each)).casefold())
    return words + [each for each in decomposed if not each.isascii() and unicodedata.category(each)[0] == "S"]


def _now() -> int:
    return time.time_ns() // 1000


COMPLETED: Final = re.compile(r"\.[0-9a-f]+(?=\")")
"""Part of an entity tag after the time of the record's change: the hash of members from other views."""


def build_router(
    record_service: RecordService,
    auth: Authenticator,
    enrichers: Mapping[str, Complete],
    by_votes: ByVotes | None = None,
) -> APIRouter:
    """Build the routes of all resources that have operations; `enrichers` are by resource name.

    Without `by_votes`, participants cannot be listed by votes.
    """
    router = APIRouter()
    for row in record_service.table.values():
        if row.operations:
            _Routes(row, record_service, auth, enrichers.get(row.name), by_votes).add_to(router)
    return router


STATUS: Final = {"create": 201, "place": 201, "delete": 204}
"""The status of success by handler, other than 200."""


class _Routes:
    """Handlers of one resource: authenticate, parse the request, call the record service."""

    def __init__(
        self,
        row: Resource,
        record_service: RecordService,
        auth: Authenticator,
        complete: Complete | None,
        by_votes: ByVotes | None,
    ) -> None:
        self._row = row
        self._record_service = record_service
        self._auth = auth
        self._complete = complete
        self._ranked = by_votes

    def add_to(self, router: APIRouter) -> None:
        row = self._row
        plural, singular = row.name.replace("_", " "), row.singular.replace("_", " ")
        with_article = f"an {singular}" if singular[0] in "aeiou" else f"a {singular}"
        one, several = f"/{row.name}/{{{row.singular}_key}}", f"/{row.name}"
        if row.parent is not None:
            above = self._record_service.table[row.parent]
            several = f"/{above.name}/{{{above.singular}_key}}/{row.name}"
        places = {"create": (several, "POST"), "place": (one, "POST"), "page": (several, "GET")}
        places |= {"get": (one, "GET"), "patch": (one, "PATCH"), "delete": (one, "DELETE")}
        summaries = {
            "create": f"Create {with_article}",
            "place": f"Create or replace {with_article}",
            "page": f"List {plural}",
            "get": f"Read {with_article}",
            "patch": f"Change {with_article}",
            "delete": f"Delete {with_article}",
        }
        for handler in self._handlers():
            name = handler.__name__
            if ("list" if name == "page" else name) in row.operations:
                path, method = places[name]
                route = TypedRoute(
                    path,
                    handler,
                    methods=[method],
                    summary=summaries[name],
                    tags=[row.name],
                    operation_id=openapi.operation_id(name, row),
                    status_code=STATUS.get(name, 200),
                    describe=partial(openapi.operation, name, row),
                )
                router.routes.append(route)

    def _handlers(self) -> Sequence[Callable[..., Awaitable[Response]]]:
        row, service = self._row, self._record_service
        singular = row.singular.replace("_", " ")
        about: dict[str, Any] = {"alias": f"{row.singular}_key", "description": f"Key of the {singular}."}
        Key = Annotated[str, Path(**about)]
        OwnKey = Annotated[str, Path(**about), WithJsonSchema({"type": "string", "pattern": OWN_KEY_PATTERN})]
        Selected = Annotated[ListSelection, Depends(FILTERS.get(row.name, everything))]
        Parent = Annotated[str, Depends(_parent_of(row, service.table))]
        Reader = Annotated[ApiKey, Depends(Permitted(self._auth, "content:read"))]
        Writer = Annotated[ApiKey, Depends(Permitted(self._auth, "content:write"))]

        async def create(
            request: Request, caller: Writer, parent: Parent, idempotency_key: IdempotencyKey = None
        ) -> Response:
            body, document = await read_object(request, row.body_bytes)
            write = write_request(caller.account, request, idempotency_key, body)
            written = await service.create(row, caller.account, document, write, parent=parent)
            return await self._posted(request, caller, written, 201)

        async def place(
            request: Request, caller: Writer, key: OwnKey, idempotency_key: IdempotencyKey = None
        ) -> Response:
            body, document = await read_object(request, row.body_bytes)
            write = write_request(caller.account, request, idempotency_key, body)
            written = await service.place(row, caller.account, key, document, write)
            is_new = written.stored.created == written.stored.updated
            return await self._posted(request, caller, written, 201 if is_new else 200)

        async def page(
            request: Request,
            caller: Reader,
            parent: Parent,
            selection: Selected,
            limit: Limit = LISTED,
            next: Next = None,
            tags: Tags = None,
            updated_since: UpdatedSince = None,
        ) -> Response:
            if selection.has_order and updated_since is not None:
                message = "updated_since orders the list: leave out order"
                raise ValidationFailed([Problem("", message, "updated_since")])
            parsed = ListRequest(
                limit=limit,
                next=next,
                tags=tuple(tags or ()),
                updated_since=updated_since,
                fits=selection.fits,
                sorted_by=selection.order,
            )
            if selection.by_votes:
                found = await self._by_votes(caller, parent, parsed)
            else:
                found = await service.page(row, caller.account, parsed, parent)
            data = [row.show(stored) async for stored in in_turns(found.records, bytes_of)]
            await self._add(request, caller, data)
            return json_response({"data": data, "has_more": found.next is not None, "next": found.next})

        async def get(request: Request, caller: Reader, key: Key, if_none_match: IfNoneMatch = None) -> Response:
            stored = await service.get(row, caller.account, key)
            shown = row.show(stored)
            await self._add(request, caller, [shown])
            headers = {"ETag": self._tag(stored, shown)}
            return json_response(shown, 200, headers, if_none_match=if_none_match)

        async def patch(request: Request, caller: Writer, key: Key, if_match: IfMatch = None) -> Response:
            _, changes = await read_object(request, row.body_bytes)
            permissions = caller.permissions
            stored = await service.patch(
                row, caller.account, key, changes, fits(if_match), permissions=permissions
            )
            return await self._written(request, caller, stored, 200)

        async def delete(caller: Writer, key: Key, if_match: IfMatch = None) -> Response:
            await service.delete(row, caller.account, key, fits(if_match))
            return Response(status_code=204)

        return create, place, page, get, patch, delete

    async def _by_votes(self, caller: ApiKey, contest: str, request: ListRequest) -> Page:
        if self._ranked is None:
            message = "order must be running_number: votes are not counted here"
            raise ValidationFailed([Problem("", message, "order")])
        ranked = await self._ranked(caller, contest)
        page = ranked_page(ranked, request)
        whole = await self._record_service.whole(self._row, caller.account, page.records, PAGE_BYTES)
        if size_of(whole.values()) > PAGE_BYTES:
            page = ranked_page(ranked, replace(request, limit=max(1, len(whole) - 1)))
        return replace(page, records=[whole[stored.key] for stored in page.records if stored.key in whole])

    async def _add(self, request: Request, caller: ApiKey, shown: list[Document]) -> None:
        if self._complete is not None:
            await self._complete(caller, str(request.base_url).rstrip("/"), shown)

    async def _posted(self, request: Request, caller: ApiKey, written: Written, status: int) -> Response:
        response = await self._written(request, caller, written.stored, status, replayed=written.replayed)
        response.headers["Location"] = f"/{self._row.name}/{written.stored.key}"
        return response

    async def _written(
        self, request: Request, caller: ApiKey, stored: Stored, status: int, *, replayed: bool = False
    ) -> Response:
        """Return the record after its write, without members of other views if those are unavailable."""
        shown = self._row.show(stored)
        with suppress(ViewsUnavailable):
            await self._add(request, caller, [shown])
        headers = {"ETag": self._tag(stored, shown)}
        if shown.get(openapi.WAITS):
            headers[openapi.WAITS_FOR] = "reopening"
        return json_response(shown, status, headers, replayed=replayed)

    def _tag(self, stored: Stored, shown: Document) -> str:
        """Return the entity tag: the change's time, and a hash of the response if it has more than the record."""
        if self._complete is None and not self._row.is_timed:
            return etag(stored.updated)
        return entity_tag(stored, shown)


def entity_tag(stored: Stored, shown: Document) -> str:
    """Return the tag of a response that has more than the record: the change's time and the response's hash."""
    return etag(f"{stored.updated}.{blake2b(orjson.dumps(shown), digest_size=8).hexdigest()}")


def _parent_of(row: Resource, table: Table) -> Callable[..., Awaitable[str]]:
    """Return the dependency that provides the key of a record's parent, "" for a resource without one."""
    if row.parent is None:

        async def no_parent() -> str:
            return ""

        return no_parent
    singular = table[row.parent].singular

    async def parent_of(
        key: Annotated[str, Path(alias=f"{singular}_key", description=f"Key of the {singular}.")],
    ) -> str:
        return key

    return parent_of


def fits(given: str | None) -> Fits | None:
    """Return the check of `If-Match` against a stored record's version; None without the header."""
    if given is None:
        return None
    condition = COMPLETED.sub("", given)
    return lambda stored: not precondition_fails(condition, etag(stored.updated))


def write_request(account: str, request: Request, idempotency_key: str | None, content: bytes) -> WriteRequest:
    """Return the write of a POST, repeatable if it has a key."""
    if idempotency_key is None:
        return WriteRequest.once()
    return WriteRequest.repeatable(account, "POST", request.url.path, idempotency_key, content)
