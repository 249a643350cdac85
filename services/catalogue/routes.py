"""Routes of the current API, generated from the table of resources."""

import re
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final

import orjson
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from libs.catalogue.pagination import ListRequest
from libs.catalogue.record_builder import Fits
from libs.catalogue.record_service import RecordService, Written
from libs.catalogue.resource import Document, Resource
from libs.catalogue.writer import Request as WriteRequest
from libs.contracts.catalogue import OWN_KEY_PATTERN, Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import ViewsUnavailable
from libs.tally.time import microseconds, parse_timestamp
from libs.web.auth import ApiKey, Authenticator, require
from libs.web.etags import etag, not_modified, precondition_fails
from libs.web.openapi import (
    BAD_BODY,
    IDEMPOTENCY_KEY,
    IF_MATCH,
    IF_NONE_MATCH,
    PAGE,
    UNCHANGED,
    answers,
    needs,
    parameter,
)
from libs.web.requests import idempotency_key, integer_parameter, read_object
from libs.web.service import Complete
from services.catalogue import openapi

OPERATION_OF: Final = {
    "create": "create",
    "place": "place",
    "page": "list",
    "get": "get",
    "patch": "patch",
    "delete": "delete",
}
"""Operation by the handler's name."""
MOST_LISTED: Final = 100
LISTED: Final = 20

COMPLETED: Final = re.compile(r"\.[0-9a-f]+(?=\")")
"""Part of an entity tag after the record's version: the hash of members from other views."""


def build_router(
    record_service: RecordService, auth: Authenticator, enrichers: Mapping[str, Complete]
) -> APIRouter:
    """Build the routes of all resources that have operations; `enrichers` are by resource name."""
    router = APIRouter(dependencies=[Depends(openapi.BEARER)])
    for row in record_service.table.values():
        if row.operations:
            _Routes(row, record_service, auth, enrichers.get(row.name)).add_to(router)
    return router


class _Routes:
    """Handlers of one resource: authenticate, parse the request, call the record service."""

    def __init__(
        self, row: Resource, record_service: RecordService, auth: Authenticator, complete: Complete | None
    ) -> None:
        self._row = row
        self._record_service = record_service
        self._auth = auth
        self._complete = complete

    def add_to(self, router: APIRouter) -> None:
        row = self._row
        plural, singular = row.name.replace("_", " "), row.singular.replace("_", " ")
        with_article = f"an {singular}" if singular[0] in "aeiou" else f"a {singular}"
        one = f"/{row.name}/{{{row.singular}_key}}"
        several, where = f"/{row.name}", []
        if row.parent is not None:
            above = self._record_service.table[row.parent]
            several = f"/{above.name}/{{{above.singular}_key}}/{row.name}"
            where = [parameter(f"{above.singular}_key", "path", f"Key of the {above.singular}.")]
        key = parameter(f"{row.singular}_key", "path", f"Key of the {singular}.")
        own_key = key | {"schema": {"type": "string", "pattern": OWN_KEY_PATTERN}}
        gone: dict[int | str, dict[str, Any]] = {
            204: {"description": "Deleted, with the records that belong to it."}
        }

        def add(path: str, method: str, handler: Any, summary: str, responses: Any, **extra: Any) -> None:
            if OPERATION_OF[handler.__name__] not in row.operations:
                return
            router.add_api_route(
                path,
                handler,
                methods=[method],
                summary=summary,
                tags=[row.name],
                operation_id=f"{handler.__name__}_{row.singular}",
                responses=responses,
                response_class=Response,
                status_code=next(iter(responses)),
                openapi_extra=extra | needs("content:read" if method == "GET" else "content:write"),
            )

        add(
            several,
            "POST",
            self.create,
            f"Create {with_article}",
            answers(
                *BAD_BODY,
                "not_found",
                "idempotency_key_reused",
                "log_unavailable",
                success={201: openapi.created(row)},
            ),
            parameters=[*where, IDEMPOTENCY_KEY],
            requestBody=openapi.body(row),
        )
        add(
            one,
            "POST",
            self.place,
            f"Create or replace {with_article}",
            answers(
                *BAD_BODY,
                "idempotency_key_reused",
                "log_unavailable",
                success={
                    201: openapi.created(row, "Created at this key."),
                    200: openapi.record_answer(row, "Replaced as a whole; only `created` is kept."),
                },
            ),
            parameters=[own_key, IDEMPOTENCY_KEY],
            requestBody=openapi.body(row),
        )
        add(
            several,
            "GET",
            self.page,
            f"List {plural}",
            answers("not_found", "validation_failed", success={200: openapi.list_answer(row)}),
            parameters=[
                *where,
                *PAGE,
                *openapi.FILTERS,
            ],
        )
        add(
            one,
            "GET",
            self.get,
            f"Read {with_article}",
            answers(
                "not_found",
                success={200: openapi.record_answer(row, f"The {singular}."), **UNCHANGED},
            ),
            parameters=[key, IF_NONE_MATCH],
        )
        add(
            one,
            "PATCH",
            self.patch,
            f"Change {with_article}",
            answers(
                *BAD_BODY,
                "not_found",
                "in_use",
                "version_conflict",
                "log_unavailable",
                *row.refusals.get("PATCH", ()),
                success={200: openapi.record_answer(row, "The changed record.")},
            ),
            parameters=[key, IF_MATCH],
            requestBody=openapi.patch_body(row),
        )
        add(
            one,
            "DELETE",
            self.delete,
            f"Delete {with_article}",
            answers(
                "not_found",
                "in_use",
                "version_conflict",
                "log_unavailable",
                *row.refusals.get("DELETE", ()),
                success=gone,
            ),
            parameters=[key, IF_MATCH],
        )

    async def create(self, request: Request) -> Response:
        caller = await self._caller(request, "content:write")
        parsed, document = await _parse_request(request, caller)
        written = await self._record_service.create(
            self._row, caller.account, document, parsed, parent=self._parent(request)
        )
        return await self._posted(request, caller, written, 201)

    async def place(self, request: Request) -> Response:
        caller = await self._caller(request, "content:write")
        parsed, document = await _parse_request(request, caller)
        written = await self._record_service.place(self._row, caller.account, self._key(request), document, parsed)
        is_new = written.stored.created == written.stored.updated
        return await self._posted(request, caller, written, 201 if is_new else 200)

    async def page(self, request: Request) -> Response:
        caller = await self._caller(request, "content:read")
        query = request.query_params
        parsed = ListRequest(
            limit=integer_parameter(request, "limit", LISTED, 1, MOST_LISTED),
            next=query.get("next"),
            tags=tuple(query.getlist("tags")),
            updated_since=_time(query.get("updated_since")),
        )
        page = await self._record_service.page(self._row, caller.account, parsed, self._parent(request))
        data = [self._row.show(stored) for stored in page.records]
        await self._add(request, caller, data)
        return _json({"data": data, "has_more": page.next is not None, "next": page.next}, 200, {})

    async def get(self, request: Request) -> Response:
        caller = await self._caller(request, "content:read")
        stored = await self._record_service.get(self._row, caller.account, self._key(request))
        shown = self._row.show(stored)
        await self._add(request, caller, [shown])
        tag = self._tag(stored, shown)
        if not_modified(request.headers.get("if-none-match"), tag):
            return Response(status_code=304, headers={"ETag": tag})
        return _json(shown, 200, {"ETag": tag})

    async def patch(self, request: Request) -> Response:
        caller = await self._caller(request, "content:write")
        _, patch = await read_object(request)
        stored = await self._record_service.patch(
            self._row, caller.account, self._key(request), patch, fits(request)
        )
        return await self._written(request, caller, stored, 200, {})

    async def delete(self, request: Request) -> Response:
        caller = await self._caller(request, "content:write")
        await self._record_service.delete(self._row, caller.account, self._key(request), fits(request))
        return Response(status_code=204)

    async def _caller(self, request: Request, permission: str) -> ApiKey:
        key = await self._auth.authenticate(request.scope)
        require(key, permission)
        return key

    def _key(self, request: Request) -> str:
        key: str = request.path_params[f"{self._row.singular}_key"]
        return key

    def _parent(self, request: Request) -> str:
        if self._row.parent is None:
            return ""
        key: str = request.path_params[f"{self._record_service.table[self._row.parent].singular}_key"]
        return key

    async def _add(self, request: Request, caller: ApiKey, shown: list[Document]) -> None:
        if self._complete is not None:
            await self._complete(caller, str(request.base_url).rstrip("/"), shown)

    async def _posted(self, request: Request, caller: ApiKey, written: Written, status: int) -> Response:
        headers = {"Location": f"/{self._row.name}/{written.stored.key}"}
        if written.replayed:
            headers["Idempotent-Replayed"] = "true"
        return await self._written(request, caller, written.stored, status, headers)

    async def _written(
        self, request: Request, caller: ApiKey, stored: Stored, status: int, headers: dict[str, str]
    ) -> Response:
        """Return the record after its write, without members of other views if those are unavailable."""
        shown = self._row.show(stored)
        with suppress(ViewsUnavailable):
            await self._add(request, caller, [shown])
        return _json(shown, status, headers | {"ETag": self._tag(stored, shown)})

    def _tag(self, stored: Stored, shown: Document) -> str:
        """Return the entity tag: the version, and a hash of the response if it has more than the record."""
        if self._complete is None:
            return etag(stored.version)
        return etag(f"{stored.version}.{blake2b(orjson.dumps(shown), digest_size=8).hexdigest()}")


async def _parse_request(request: Request, caller: ApiKey) -> tuple[WriteRequest, Document]:
    """Return the request, identified by its idempotency key, and its parsed body."""
    body, document = await read_object(request)
    key = idempotency_key(request)
    if key is None:
        return WriteRequest.once(), document
    return WriteRequest.repeatable(caller.account, "POST", request.url.path, key, body), document


def fits(request: Request) -> Fits | None:
    """Return the check of `If-Match` against a stored record's version; None without the header."""
    given = request.headers.get("if-match")
    if given is None:
        return None
    condition = COMPLETED.sub("", given)
    return lambda stored: not precondition_fails(condition, etag(stored.version))


def _time(given: str | None) -> int | None:
    if given is None:
        return None
    try:
        return microseconds(parse_timestamp(given.replace(" ", "+")))
    except ValueError as error:
        raise ValidationFailed([Problem("", f"updated_since {error}")]) from None


def _json(body: object, status: int, headers: dict[str, str]) -> Response:
    return Response(orjson.dumps(body), status, headers, "application/json")
