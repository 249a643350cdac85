"""Routes whose handlers take the caller's permission and the body as typed parameters, checked and documented.

FastAPI's own body parameters parse a body before the API key is checked (401), whatever its size and media type.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel

from libs.contracts.validation import checked
from libs.web.documents.openapi import Schema, needs, takes
from libs.web.door.auth import ApiKey, Authenticator, require
from libs.web.door.request_parsing import read_object

T = TypeVar("T")


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
class JsonBody(Generic[T]):
    """Dependency: the JSON body, documented as `model` and validated by it, or by `parse`.

    Raises `MalformedJson`, `UnsupportedMediaType`, `PayloadTooLarge` and `ValidationFailed`.
    """

    model: type[BaseModel]
    parse: Callable[[dict[str, Any]], T] | None = None

    async def __call__(self, request: Request) -> Sent[T]:
        content, given = await read_object(request)
        form: Any = checked(self.model, given) if self.parse is None else self.parse(given)
        return Sent(content, form)


class TypedRoute(APIRoute):
    """Documents the `Permitted` and `JsonBody` parameters of its handler, which are checked in their order."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        declared = [each.call for each in self.dependant.dependencies]
        kinds = [type(each) for each in declared if isinstance(each, Permitted | JsonBody)]
        if Permitted in kinds[1:]:
            raise TypeError(f"{endpoint.__name__}: the permission must come before the body, which needs it")
        for entry in _documented(declared):
            self.openapi_extra = (self.openapi_extra or {}) | entry


def _documented(declared: list[Callable[..., Any] | None]) -> Iterator[Schema]:
    for each in declared:
        match each:
            case Permitted():
                yield needs(each.permission)
            case JsonBody():
                yield takes(each.model)
