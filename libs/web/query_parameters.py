"""Rejects query parameters that a route does not have: a misspelled one would otherwise have no effect."""

from collections.abc import Iterator, MutableMapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from libs.contracts.validation import Problem, ValidationFailed

if TYPE_CHECKING:  # the projector serves HTTP without FastAPI
    from fastapi.dependencies.models import Dependant
    from fastapi.routing import APIRoute

MOST_CACHED: Final = 1_000
CACHED: Final = "query_parameter_names"
"""Attribute of a route with its parameters' names."""
SHOWN: Final = 100
"""Characters of a name in an error."""


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


@lru_cache(maxsize=MOST_CACHED)
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
