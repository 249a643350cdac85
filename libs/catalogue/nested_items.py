"""Arranges nested items of a document: keys and timestamps, which unchanged items keep, legacy members, and search
terms."""

import secrets
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from libs.catalogue.schemas.base import Document, Members
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.time_conversion import timestamp

KEY_BYTES: Final = 12
_OWN: Final = {"key", "created", "updated"}


def set_keys(name: str, schema: type[Members], before: Document | None, after: Document, at: int) -> None:
    """Give each item of the list `name` a key and timestamps.

    In a change, an item with a known key updates that item; one without a key is new. Raises `ValidationFailed`.
    """
    known = {item["key"]: item for item in (before or {}).get(name, ())}
    taken: set[str] = set()
    problems: list[Problem] = []
    for index, item in enumerate(after.get(name, ())):
        key = None if before is None else item.get("key")
        if key in taken:
            problems.append(Problem(f"/{name}/{index}/key", "must be unique"))
        elif key is not None and key not in known:
            problems.append(Problem(f"/{name}/{index}/key", "is unknown; omit it to add an item"))
        else:
            _complete(schema, known.get(key or ""), item, at)
            taken.add(item["key"])
    if problems:
        raise ValidationFailed(problems)


def set_updated(
    path: Sequence[str],
    schema: type[Members],
    before: Document | None,
    after: Document,
    at: int,
    default: Document | None = None,
) -> None:
    """Set `updated` of the object at `path` on a change; `default` is used without one."""
    own = _at(after, path)
    if own is None and default is not None:
        own = after[path[0]] = dict(default)
    if own is None:
        return
    old = _at(before or {}, path)
    is_new = old is None and default is not None
    changed = is_new or not _same(schema, old or {}, own)
    own["updated"] = timestamp(at) if changed else (old or {}).get("updated")


def _complete(schema: type[Members], old: Document | None, item: Document, at: int) -> None:
    """Set the server's members of an item, formerly `old`."""
    now = timestamp(at)
    if old is None:
        item |= {"key": secrets.token_hex(KEY_BYTES), "created": now, "updated": now}
    else:
        item |= {name: old[name] for name in _OWN} | ({} if _same(schema, old, item) else {"updated": now})


def _same(schema: type[Members], one: Document, other: Document) -> bool:
    """Return whether both documents are equal except for the server's members."""
    shown = [schema.model_validate(part).model_dump(exclude=_OWN) for part in (one, other)]
    return shown[0] == shown[1]


def _at(document: Document, path: Sequence[str]) -> Document | None:
    found: Document | None = document
    for step in path:
        found = found.get(step) if found is not None else None
    return found


def keep_item_members(kept: Mapping[str, tuple[str, ...]], before: Document, after: Document) -> Document:
    """Return `after`, whose list items keep the members in `kept` (by list) of the old item with the same `id`.

    A value in `after`, also null, takes precedence.
    """

    def items(members: tuple[str, ...], old: Any, new: Any) -> Any:
        if not isinstance(old, list) or not isinstance(new, list):
            return new
        held = {item["id"]: {name: item[name] for name in members if name in item} for item in old}
        return [held.get(str(item.get("id")), {}) | item if isinstance(item, dict) else item for item in new]

    return after | {name: items(kept[name], before.get(name), after[name]) for name in kept.keys() & after.keys()}


LEGACY = "search_helps"


def share_terms(name: str, before: Document | None, document: Document) -> None:
    """Give the member `name` and `search_helps` the same terms: those that were changed.

    Icons of terms that stay are kept, as are items without a term. Raises `ValidationFailed` if both were changed,
    to different terms.
    """
    old, items, helps = before or {}, document.get(name, []), document.get(LEGACY, [])
    if _terms(items) == _terms(helps):
        return
    of_items = _terms(items) != _terms(old.get(name, ()))
    of_helps = helps != old.get(LEGACY, [])
    if of_items and of_helps:
        message = f"has other terms than {LEGACY}: send one of them, or the same terms in both"
        raise ValidationFailed([Problem(f"/{name}", message)])
    if of_helps:
        is_text = name == "search_terms" or any(isinstance(item, str) for item in items)
        document[name] = _matched(_terms(helps), items, lambda term: term if is_text else {"term": term})
    elif of_items:
        document[LEGACY] = _matched(_terms(items), helps, lambda term: {"term": term})


def _term(item: Any) -> str | None:
    """Return the item's term: a text, or the member `term` of an object."""
    found = item.get("term") if isinstance(item, dict) else item
    return found if isinstance(found, str) and found else None


def _terms(items: Iterable[Any]) -> list[str]:
    return [term for term in map(_term, items) if term is not None]


def _matched(terms: list[str], held: list[Any], new: Any) -> list[Any]:
    """Return the held items of the terms in their order, new ones for the others, and the items without a term."""
    left: defaultdict[str, deque[Any]] = defaultdict(deque)
    for item in held:
        if (term := _term(item)) is not None:
            left[term].append(item)
    found = [left[term].popleft() if left[term] else new(term) for term in terms]
    return found + [item for item in held if _term(item) is None]
