"""Routes of the current API, generated from the table of resources."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Depends, Path, Request
from pydantic import WithJsonSchema
from starlette.responses import Response

from libs.catalogue.commands import WriteRequest
from libs.catalogue.pagination import ListRequest, Page, ranked_page
from libs.catalogue.records import Fits, RecordService, Written
from libs.catalogue.resource_definition import Document, Resource, Table
from libs.contracts.catalogue_events import OWN_KEY_PATTERN, Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import ViewsUnavailable
from libs.web.door.auth import ApiKey, Authenticator
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
from services.catalogue.list_filters import FILTERS, ListSelection, everything
from services.catalogue.openapi import Tags, UpdatedSince

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
    router = APIRouter(route_class=TypedRoute)
    for row in record_service.table.values():
        if row.operations:
            _Routes(row, record_service, auth, enrichers.get(row.name), by_votes).add_to(router)
    return router


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
        responses, bodies = openapi.responses(row), openapi.bodies(row)
        for handler in self._handlers():
            name = handler.__name__
            if ("list" if name == "page" else name) in row.operations:
                path, method = places[name]
                router.add_api_route(
                    path,
                    handler,
                    methods=[method],
                    summary=summaries[name],
                    tags=[row.name],
                    operation_id=openapi.operation_id(name, row),
                    responses=responses[name],
                    status_code=next(iter(responses[name])),  # type: ignore[arg-type]
                    openapi_extra=bodies.get(name, {}),
                )

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
            body, document = await read_object(request)
            write = write_request(caller.account, request, idempotency_key, body)
            written = await service.create(row, caller.account, document, write, parent=parent)
            return await self._posted(request, caller, written, 201)

        async def place(
            request: Request, caller: Writer, key: OwnKey, idempotency_key: IdempotencyKey = None
        ) -> Response:
            body, document = await read_object(request)
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
            data = [row.show(stored) for stored in found.records]
            await self._add(request, caller, data)
            return json_response({"data": data, "has_more": found.next is not None, "next": found.next})

        async def get(request: Request, caller: Reader, key: Key, if_none_match: IfNoneMatch = None) -> Response:
            stored = await service.get(row, caller.account, key)
            shown = row.show(stored)
            await self._add(request, caller, [shown])
            headers = {"ETag": self._tag(stored, shown)}
            return json_response(shown, 200, headers, if_none_match=if_none_match)

        async def patch(request: Request, caller: Writer, key: Key, if_match: IfMatch = None) -> Response:
            _, changes = await read_object(request)
            stored = await service.patch(row, caller.account, key, changes, fits(if_match))
            return await self._written(request, caller, stored, 200)

        async def delete(caller: Writer, key: Key, if_match: IfMatch = None) -> Response:
            await service.delete(row, caller.account, key, fits(if_match))
            return Response(status_code=204)

        return create, place, page, get, patch, delete

    async def _by_votes(self, caller: ApiKey, contest: str, request: ListRequest) -> Page:
        if self._ranked is None:
            message = "order must be running_number: votes are not counted here"
            raise ValidationFailed([Problem("", message, "order")])
        return ranked_page(await self._ranked(caller, contest), request)

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
        return json_response(shown, status, {"ETag": self._tag(stored, shown)}, replayed=replayed)

    def _tag(self, stored: Stored, shown: Document) -> str:
        """Return the entity tag: the change's time, and a hash of the response if it has more than the record."""
        if self._complete is None and self._row.timed is None:
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
