"""Builds routes from legacy handlers, one call per route, for each of the two environments."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, Final, Literal, Protocol

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from libs.catalogue.commands import WriteRequest
from libs.catalogue.records import Fits, RecordService, Written
from libs.catalogue.resource_definition import Document, Resource
from libs.contracts.catalogue_events import Stored
from libs.legacy.parameters.participants import with_brands
from libs.legacy.parameters.translator import JsonSchema, Translator
from libs.legacy.records import LegacyRecords
from libs.legacy.routes.body_schemas import request_body
from libs.legacy.routes.parameter_parsing import FORMS, read_parameters
from libs.tally.errors import ViewsUnavailable
from libs.views.catalogue_views import CatalogueViews
from libs.web.auth import ApiKey, Authenticator, require
from libs.web.openapi import LEGACY_ANSWERS, needs, parameter
from libs.web.server.http_service import Complete


class Images(Protocol):
    """Creates, changes and deletes images with their pictures."""

    async def upload(
        self,
        account: str,
        file: IO[bytes],
        body: Document,
        request: WriteRequest,
        where: str = ...,
        formats: Collection[str] = ...,
    ) -> Written: ...

    async def fetch(
        self, account: str, url: str, body: Document, request: WriteRequest, formats: Collection[str] = ...
    ) -> Written: ...

    async def replace(
        self, account: str, key: str, url: str, change: Callable[[Document], Document], formats: Collection[str]
    ) -> Stored: ...

    async def delete(self, account: str, key: str, fits: Fits | None) -> None: ...


NEXT: Final[JsonSchema] = {"type": "string", "description": "The member `next` of the previous page."}
GONE: Final[dict[int | str, dict[str, Any]]] = {204: {"description": "Deleted."}}


@dataclass(frozen=True, slots=True)
class LegacyEnvironment:
    """Dependencies of the legacy handlers of one environment at `base`; `now` is its writes' clock (us).

    `enrichers` maps `<base>/<resource>` to the function that adds other services' members to records.
    """

    base: Literal["/legacy", "/legacy-test"]
    auth: Authenticator
    record_service: RecordService
    views: CatalogueViews
    now: Callable[[], int]
    enrichers: Mapping[str, Complete]
    images: Images
    image_max_bytes: int

    async def complete(self, call: "Call", row: Resource, shapes: list[Document]) -> None:
        """Add other services' members to records of `row`, if the views are available."""
        complete = self.enrichers.get(f"{self.base}/{row.name}")
        if complete is not None:
            with suppress(ViewsUnavailable):
                await complete(call.key, call.origin, shapes)

    def records(self, row: Resource, translator: Translator) -> LegacyRecords:
        return LegacyRecords(self.record_service, self.views, row, translator)


@dataclass(frozen=True, slots=True)
class Call:
    """An authorized request and its API key."""

    key: ApiKey
    request: Request

    @property
    def account(self) -> str:
        return self.key.account

    @property
    def origin(self) -> str:
        """Return the service's address as in the request, without a slash at the end."""
        return str(self.request.base_url).rstrip("/")

    def path(self, name: str) -> str:
        """Return a path parameter."""
        value: str = self.request.path_params[name]
        return value

    def query(self, name: str) -> str | None:
        """Return a query parameter; None if it is absent or empty."""
        return self.request.query_params.get(name) or None

    async def parameters(self, described: Mapping[str, JsonSchema]) -> Document:
        """Parse the body, JSON or a form, by the types of its parameters."""
        return await read_parameters(self.request, described)


Handler = Callable[[Call], Awaitable[Document | None]]
"""Returns the body; None becomes 204."""


class LegacyRoutes:
    """Routes of one environment: each answers with and without `/dev`, and is documented once."""

    def __init__(self, base: str, auth: Authenticator, records: CatalogueViews) -> None:
        """`records` has the accounts' settings."""
        self.router = APIRouter(tags=["legacy"], responses=LEGACY_ANSWERS)
        self._base = base
        self._auth = auth
        self._records = records

    def add(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        parameters: Mapping[str, JsonSchema] | None = None,
        required: Sequence[str] = (),
        kinds: Sequence[str] = ("application/json", *FORMS),
        body: str = "",
        query: Mapping[str, JsonSchema] | None = None,
        shape: JsonSchema | None = None,
        name: str = "",
        description: str = "",
    ) -> None:
        """Add a route. GET needs content:read, other methods content:write.

        For the documentation: `required` names parameters, `kinds` the body's media types, `body` its component
        (by default after the operation), and `shape` is the response's schema. The operation's `name` and
        `description` are those of the handler by default.
        """

        permission = "content:read" if method == "GET" else "content:write"

        async def endpoint(request: Request) -> Response:
            key = await self._auth.authenticate_legacy(request.scope)
            require(key, permission)
            shape = await with_brands(self._records, handler(Call(key, request)))
            if shape is None:
                return Response(status_code=204)
            return Response(orjson.dumps(shape), 200, {"Cache-Control": "private, no-cache"}, "application/json")

        name = name or handler.__name__
        done: dict[str, Any] = {"description": "Done.", "content": {"application/json": {"schema": shape}}}
        asked = [parameter(each, "path", "") for each in re.findall(r"{(\w+)}", path)]
        asked += [parameter(each, "query", "", schema) for each, schema in (query or {}).items()]
        extra: dict[str, Any] = needs(permission) | {"parameters": asked}
        if parameters is not None:
            extra["requestBody"] = request_body(body or name.rpartition("_")[2], parameters, required, kinds)
        documented = path.removeprefix("/dev")
        self.router.add_api_route(
            self._base + path,
            endpoint,
            methods=[method],
            summary=name.replace("_", " ").capitalize(),
            description=description or handler.__doc__,
            operation_id=f"{self._base.strip('/').replace('-', '_')}_{name}",
            responses=GONE if method == "DELETE" else {200: done},
            status_code=204 if method == "DELETE" else 200,
            response_class=Response,
            openapi_extra=extra,
        )
        other = documented if documented != path else f"/dev{path}"
        self.router.add_api_route(
            self._base + other, endpoint, methods=[method], include_in_schema=False, openapi_extra=extra
        )
