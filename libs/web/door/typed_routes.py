"""Routes whose handlers take the caller's permission and the body as typed parameters, checked and documented;
and the parameters and the page of a list that many routes have.

FastAPI's own body parameters parse a body before the API key is checked (401), whatever its size and media type.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from typing import Annotated, Any, Final, Generic, TypeVar

from fastapi import Header, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from libs.contracts.catalogue_events import ApiKey
from libs.contracts.validation import checked, explained
from libs.web.documents.described_route import DescribedRoute
from libs.web.documents.openapi import Schema, needs, patch_body, takes
from libs.web.door.auth import Authenticator, require
from libs.web.door.request_parsing import read_object

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
TIME: Final[dict[str, Any]] = {"format": "date-time"}

IfMatch = Annotated[str | None, Header(alias="If-Match", description="Write only if the record has this ETag.")]
IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="Respond 304 if the record has this ETag.")
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=explained("^[!-~]{1,255}$", "must be 1 to 255 visible ASCII characters"),
        description="A repeated request takes effect once, for 24 hours; with different content it is refused.",
    ),
]
LISTED: Final = 20
"""Records per page by default."""
Limit = Annotated[int, Query(ge=1, le=100, description="Records per page.")]
Next = Annotated[str | None, Query(description="`next` of the previous page.")]


class ListPage(BaseModel, Generic[T]):
    """A page of a list."""

    data: list[T] = Field(description="The page, in the order of the list.")
    has_more: bool = Field(description="Whether there is another page.")
    next: str | None = Field(description="Send it as `?next=` to read the next page.")


@dataclass(frozen=True, slots=True)
class Permitted:
    """Dependency: the caller's API key, which has `permission` or `other`. Raises `Unauthorized` and `Forbidden`.

    The document names `permission`; the route's description names `other`.
    """

    auth: Authenticator
    permission: str
    other: str = ""

    async def __call__(self, request: Request) -> ApiKey:
        key = await self.auth.authenticate(request.scope)
        if self.other not in key.permissions:
            require(key, self.permission)
        return key


@dataclass(frozen=True, slots=True)
class Sent(Generic[T]):
    """A body: its bytes, which identify a repeated request, and the form that was parsed from them."""

    content: bytes
    form: T


@dataclass(frozen=True, slots=True)
class JsonBody(Generic[M]):
    """Dependency: the JSON body of at most `max_bytes`, documented as `model` and validated by it.

    Raises `MalformedJson`, `UnsupportedMediaType`, `PayloadTooLarge` and `ValidationFailed`.
    """

    model: type[M]
    max_bytes: int

    async def __call__(self, request: Request) -> Sent[M]:
        content, given = await read_object(request, self.max_bytes)
        return Sent(content, checked(self.model, given))


@dataclass(frozen=True, slots=True)
class MergePatch:
    """Dependency: a JSON merge patch of a `model`, which validates the record once it is merged.

    Raises `MalformedJson`, `UnsupportedMediaType`, `PayloadTooLarge` and `ValidationFailed`.
    """

    model: type[BaseModel]
    max_bytes: int

    async def __call__(self, request: Request) -> dict[str, Any]:
        _, changes = await read_object(request, self.max_bytes)
        return changes


class TypedRoute(DescribedRoute):
    """Documents the `Permitted`, `JsonBody` and `MergePatch` parameters of its handler, checked in their order.

    Of a handler that returns a `Response`, only the declared bodies are documented.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if signature(endpoint).return_annotation is Response and not options.get("response_model"):
            options["response_class"] = Response
        super().__init__(path, endpoint, **options)
        self._declared = [each.call for each in self.dependant.dependencies]
        kinds = [type(each) for each in self._declared if isinstance(each, Permitted | JsonBody | MergePatch)]
        if Permitted in kinds[1:]:
            raise TypeError(f"{endpoint.__name__}: the permission must come before the body, which needs it")

    def complete_description(self) -> None:
        super().complete_description()
        for entry in _documented(self._declared):
            self.openapi_extra = (self.openapi_extra or {}) | entry


def _documented(declared: list[Callable[..., Any] | None]) -> Iterator[Schema]:
    for each in declared:
        match each:
            case Permitted():
                yield needs(each.permission)
            case JsonBody():
                yield takes(each.model, each.max_bytes)
            case MergePatch():
                yield {"requestBody": patch_body(each.model, each.max_bytes)}
