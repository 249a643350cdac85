"""Query parameters: those that a route does not have are refused, as a misspelled one would have no effect."""

from collections.abc import Callable, Iterator, MutableMapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar
from urllib.parse import parse_qsl

from libs.contracts.validation import Problem, ValidationFailed

if TYPE_CHECKING:  # the projector serves HTTP without FastAPI
    from fastapi.dependencies.models import Dependant
    from fastapi.routing import APIRoute

MOST_CACHED: Final = 1_000
MOST_CACHED_BYTES: Final = 512
"""Number and size of queries that are cached: callers choose them, up to the limit of a request's headers."""
CACHED: Final = "query_parameter_names"
"""Attribute of a route with its parameters' names."""
SHOWN: Final = 100
"""Characters of a name in an error."""

P = ParamSpec("P")
T = TypeVar("T")


def cached_by_query(parse: Callable[Concatenate[bytes, P], T]) -> Callable[Concatenate[bytes, P], T]:
    """Cache what `parse` returns for short queries."""
    cached: Any = lru_cache(maxsize=MOST_CACHED)(parse)

    def parsed(query: bytes, /, *args: P.args, **kwargs: P.kwargs) -> T:
        found: T = (cached if len(query) <= MOST_CACHED_BYTES else parse)(query, *args, **kwargs)
        return found

    return parsed


def refuse_unknown_parameters(scope: MutableMapping[str, Any]) -> None:
    """Raise `ValidationFailed` for query parameters that the request's route does not have."""
    query: bytes | None = scope.get("query_string")
    route: Any = scope.get("route")
    if not query or not hasattr(route, "dependant"):  # of FastAPI's routes alone
        return
    known = _known_of(route)
    unknown = _unknown(query, known)
    if unknown:
        allowed = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
        raise ValidationFailed(
            Problem("", f"{name} is not a query parameter of this request; {allowed}", name) for name in unknown
        )


@cached_by_query
def _unknown(query: bytes, known: frozenset[str]) -> tuple[str, ...]:
    given = dict.fromkeys(name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    return tuple(name[:SHOWN] for name in given if name not in known)


def _known_of(route: "APIRoute") -> frozenset[str]:
    """Return the documented query parameters: of the handler's signature, and added by its router."""
    held: frozenset[str] | None = getattr(route, CACHED, None)
    if held is None:
        added = (route.openapi_extra or {}).get("parameters", ())
        names = *_signed(route.dependant), *(each["name"] for each in added if each["in"] == "query")
        held = frozenset(names)
        setattr(route, CACHED, held)  # routes are not hashable
    return held


def _signed(dependant: "Dependant") -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for each in dependant.dependencies:
        yield from _signed(each)
