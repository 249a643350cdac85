"""Routes of the legacy API: one call per route, and the five operations that resources have alike."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from libs.catalogue.commands import WriteRequest
from libs.catalogue.errors import RecordNotFound, UnknownReferences
from libs.catalogue.pagination import ListRequest
from libs.catalogue.records import RecordService
from libs.catalogue.resource_definition import Resource
from libs.catalogue.resource_table import RESOURCES
from libs.catalogue.schemas.base import Document
from libs.contracts.catalogue_events import ApiKey, Stored
from libs.contracts.validation import ValidationFailed
from libs.legacy.bodies import FORMS, read_parameters, request_body
from libs.legacy.participants import name_brands
from libs.legacy.translator import JsonSchema, Parameters, Translator, page
from libs.tally.errors import NotFound, TallyError, ViewsUnavailable
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.web.documents.described_route import DescribedRoute
from libs.web.documents.openapi import LEGACY_ANSWERS, Schema, needs, parameter
from libs.web.door.auth import Authenticator, require
from libs.web.server.http_service import Complete

NAMES: Final[Mapping[str, str]] = {"feeds": "articlefeed"}
"""Names of a record in error messages, if different from `singular`, by resource."""


class NoPermission(TallyError):
    """The record belongs to another brand."""

    code = "forbidden"


async def legacy_error(
    views: CatalogueViews, error: RecordNotFound | ValidationFailed, translator: Translator | None
) -> TallyError:
    """Return the error for a record that the account does not have, or for values, named by legacy parameters."""
    missing = error.missing if isinstance(error, RecordNotFound | UnknownReferences) else ()
    for resource, key in missing:
        if resource in RESOURCES:
            name = NAMES.get(resource, RESOURCES[resource].singular)
            if await views.find_owner(resource, key) is None:
                return NotFound(f"{name} not found")
            return NoPermission(f"no permission to {name}")
    return translator.renamed(error) if translator is not None and isinstance(error, ValidationFailed) else error


if TYPE_CHECKING:  # with the picture library, which the query service does not need
    from libs.media.images import Images


PAGE: Final = 20
"""Records per page of the lists with a `next`."""
WHOLE: Final = 1_000
"""Records of the lists without a documented `next`; it follows only after so many."""
Filter = Callable[[Stored], bool]

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
    images: "Images"
    image_max_bytes: int

    async def complete(self, call: "LegacyCall", row: Resource, shapes: list[Document]) -> None:
        """Add other services' members to records of `row`, if the views are available."""
        complete = self.enrichers.get(f"{self.base}/{row.name}")
        if complete is not None:
            with suppress(ViewsUnavailable):
                await complete(call.key, call.origin, shapes)


@dataclass(frozen=True, slots=True)
class LegacyCall:
    """An authorized request, its API key, and the largest size of its body."""

    key: ApiKey
    request: Request
    max_bytes: int

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
        return await read_parameters(self.request, described, self.max_bytes)


Handler = Callable[[LegacyCall], Awaitable[Document | None]]
"""Returns the body; None becomes 204."""


class LegacyRoutes:
    """Routes of one environment: each answers with and without `/dev`, and is documented once."""

    def __init__(self, base: str, auth: Authenticator, records: CatalogueViews) -> None:
        """`records` has the accounts' settings."""
        self.router = APIRouter()
        self._base = base
        self._auth = auth
        self._records = records

    def add(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        translator: Translator | None = None,
        parameters: Parameters | None = None,
        max_bytes: int = 0,
        required: Sequence[str] = (),
        kinds: Sequence[str] = ("application/json", *FORMS),
        body: str = "",
        query: Mapping[str, JsonSchema] | None = None,
        schema: Callable[[], JsonSchema] | None = None,
        name: str = "",
        description: str = "",
    ) -> None:
        """Add a route. GET needs content:read, other methods content:write.

        The `translator` names invalid values by its parameters. A body with `parameters` has at most `max_bytes`.
        For the documentation: `required` names parameters, `kinds` the body's media types, `body` its component
        (by default after the operation), and `schema` returns that of the response. The operation's `name` and
        `description` are those of the handler by default.
        """

        permission = "content:read" if method == "GET" else "content:write"

        async def endpoint(request: Request) -> Response:
            key = await self._auth.authenticate_legacy(request.scope)
            require(key, permission)
            try:
                shape = await handler(LegacyCall(key, request, max_bytes))
            except (RecordNotFound, ValidationFailed) as error:
                raise await legacy_error(self._records, error, translator) from None
            if shape is None:
                return Response(status_code=204)
            await name_brands(self._records, shape)
            return Response(orjson.dumps(shape), 200, {"Cache-Control": "private, no-cache"}, "application/json")

        name = name or handler.__name__
        asked = [parameter(each, "path", "") for each in re.findall(r"{(\w+)}", path)]
        asked += [parameter(each, "query", "", schema) for each, schema in (query or {}).items()]
        extra: dict[str, Any] = needs(permission) | {"parameters": asked}

        def describe() -> Schema:
            described: Schema = {}
            if parameters is not None:
                component = body or name.rpartition("_")[2]
                described["requestBody"] = request_body(component, parameters(), required, kinds, max_bytes)
            if schema is not None:
                content = {"application/json": {"schema": schema()}}
                described["responses"] = {"200": {"description": "Done.", "content": content}}
            return described

        documented = path.removeprefix("/dev")
        route = DescribedRoute(
            self._base + path,
            endpoint,
            describe=describe,
            methods=[method],
            tags=["legacy"],
            summary=_title(name),
            description=description or cleandoc(handler.__doc__ or ""),
            operation_id=f"{self._base.strip('/').replace('-', '_')}_{name}",
            responses=LEGACY_ANSWERS | (GONE if method == "DELETE" else {}),
            status_code=204 if method == "DELETE" else 200,
            response_class=Response,
            openapi_extra=extra,
        )
        other = documented if documented != path else f"/dev{path}"
        self.router.routes.append(route)
        self.router.add_api_route(
            self._base + other, endpoint, methods=[method], include_in_schema=False, openapi_extra=extra
        )


def _title(name: str) -> str:
    """Return an operation's name as a title, with an article before each noun in the singular."""
    verb, _, rest = name.replace("_", " ").replace("articlefeed", "article feed").partition(" ")
    nouns = rest.replace("feedpage", "feed page").split(" to ")
    singular = {noun: "an " if noun[0] in "aeiou" else "a " for noun in nouns if not noun.endswith("s")}
    return f"{verb.capitalize()} {' to '.join(singular.get(noun, '') + noun for noun in nouns)}"


LIST: Final = "The brand's {}, {:,} a page, newest first."
UPDATE: Final = "Takes the parameters of create; those left out keep their value."


class ResourceHandlers:
    """Serves one resource, whose records are `name`; subclasses return the records' shapes.

    `several` and `one` are the paths of the list, perhaps below a parent, and of a record.
    `operations` are those that it serves; `docs` describes them by their names.
    """

    name: ClassVar[str]
    several: ClassVar[str]
    one: ClassVar[str]
    row: ClassVar[Resource]
    translator: ClassVar[Translator]
    schema: Callable[[], JsonSchema]
    """Returns the JSON schema of the read shape."""
    required: ClassVar[Sequence[str]] = ()
    query: ClassVar[Mapping[str, JsonSchema]] = {"next": NEXT}
    docs: ClassVar[Mapping[str, str]] = {}
    page_size: ClassVar[int] = PAGE
    max_bytes: ClassVar[int] = 0
    """The largest body of a write; 0: that of the resource."""
    written: Callable[[Mapping[str, Any], Document | None], Document]
    """Applies the parameters to a record, as `Translator.written`."""
    operations: ClassVar[Sequence[str]] = ("list", "create", "get", "update", "delete")

    def __init__(self, environment: LegacyEnvironment) -> None:
        self.environment = environment
        self.records = environment.record_service

    async def shown(self, call: LegacyCall, records: Sequence[Stored]) -> list[Document]:
        """Return the records' shapes."""
        raise NotImplementedError

    async def body(self, call: LegacyCall) -> Document:
        """Parse the body. Raises `ValidationFailed` for values that depend on other records."""
        return await call.parameters(self.translator.parameters)

    def filter(self, _: LegacyCall) -> Filter | None:
        """Return the filter of a list's query."""
        return None

    def add_to(self, routes: LegacyRoutes) -> None:
        docs = {"list": LIST.format(f"{self.name}s", self.page_size), "update": UPDATE} | dict(self.docs)
        schema, max_bytes = self.schema, self.max_bytes or self.row.body_bytes
        shaped: dict[str, Any] = {"schema": schema}
        written = shaped | {"parameters": lambda: self.translator.parameters, "max_bytes": max_bytes}
        handlers: dict[str, tuple[Any, dict[str, Any]]] = {
            "list": (self.list, {"query": self.query, "schema": lambda: page(f"{self.name}s", schema())}),
            "create": (self.create, written | {"required": self.required}),
            "get": (self.get, shaped),
            "update": (self.update, written),
            "delete": (self.delete, {}),
        }
        for operation in self.operations:
            handler, options = handlers[operation]
            name = f"{operation}_{self.name}" + ("s" if operation == "list" else "")
            path = self.several if operation in ("list", "create") else self.one
            method = {"list": "GET", "get": "GET", "delete": "DELETE"}.get(operation, "POST")
            options |= {"name": name, "description": docs[operation], "translator": self.translator}
            routes.add(method, path, handler, **options)

    async def list(self, call: LegacyCall) -> Document:
        request = ListRequest(self.page_size, call.query("next"), fits=self.filter(call))
        found = await self.records.page(self.row, call.account, request, _key(call, self.several))
        shapes = await self.shown(call, found.records)
        return {f"{self.name}s": shapes} | ({} if found.next is None else {"next": found.next})

    async def create(self, call: LegacyCall) -> Document:
        body, parent, once = await self.body(call), _key(call, self.several), WriteRequest.once()
        document = self.written(body, None)
        made = await self.records.create(self.row, call.account, document, once, parent=parent)
        return await self.answer(call, made.stored, body)

    async def get(self, call: LegacyCall) -> Document:
        return await self.answer(call, await self.records.get(self.row, call.account, _key(call, self.one)), {})

    async def update(self, call: LegacyCall) -> Document:
        body = await self.body(call)
        change, key = partial(self.written, body), _key(call, self.one)
        stored = await self.records.change(self.row, call.account, key, change, permissions=call.key.permissions)
        return await self.answer(call, stored, body)

    async def delete(self, call: LegacyCall) -> None:
        await self.records.delete(self.row, call.account, _key(call, self.one))

    async def answer(self, call: LegacyCall, stored: Stored, _: Document) -> Document:
        """Return the record's shape, after the write of a body ({}: none)."""
        [shape] = await self.shown(call, [stored])
        return shape


def _key(call: LegacyCall, path: str) -> str:
    """Return the value of the path's parameter; "" if it has none."""
    match = re.search(r"{(\w+)}", path)
    return "" if match is None else call.path(match[1])
