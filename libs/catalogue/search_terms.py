"""Keeps the search terms of a record equal in its current member and in the legacy `search_helps`."""

from collections.abc import Iterable
from typing import Any

from libs.catalogue.nested_items import Arrange
from libs.catalogue.resource_definition import Document
from libs.contracts.validation import Problem, ValidationFailed

LEGACY = "search_helps"


def shared(name: str) -> Arrange:
    """Return a function that gives the member `name` and `search_helps` the same terms: those that were changed.

    Icons of terms that stay are kept, as are items without a term. Raises `ValidationFailed` if both were changed,
    to different terms.
    """

    def arrange(old: Document | None, document: Document, _: int) -> None:
        before, items, helps = old or {}, document.get(name, []), document.get(LEGACY, [])
        if _terms(items) == _terms(helps):
            return
        of_items = _terms(items) != _terms(before.get(name, ()))
        of_helps = helps != before.get(LEGACY, [])
        if of_items and of_helps:
            message = f"has other terms than {LEGACY}: send one of them, or the same terms in both"
            raise ValidationFailed([Problem(f"/{name}", message)])
        if of_helps:
            document[name] = _matched(_terms(helps), items, lambda term: _plain(term, items, name))
        elif of_items:
            document[LEGACY] = _matched(_terms(items), helps, lambda term: {"term": term})

    return arrange


def _term(item: Any) -> str | None:
    """Return the item's term: a text, or the member `term` of an object."""
    found = item.get("term") if isinstance(item, dict) else item
    return found if isinstance(found, str) and found else None


def _terms(items: Iterable[Any]) -> list[str]:
    return [term for term in map(_term, items) if term is not None]


def _matched(terms: list[str], held: list[Any], new: Any) -> list[Any]:
    """Return the held items of the terms in their order, new ones for the others, and the items without a term."""
    left = [item for item in held if _term(item) is not None]
    found = []
    for term in terms:
        item = next((item for item in left if _term(item) == term), None)
        if item is None:
            found.append(new(term))
        else:
            left.remove(item)
            found.append(item)
    return found + [item for item in held if _term(item) is None]


def _plain(term: str, items: list[Any], name: str) -> Any:
    """Return a new item: an object in the free-form `search_help`, unless it holds texts."""
    is_text = name == "search_terms" or any(isinstance(item, str) for item in items)
    return term if is_text else {"term": term}
