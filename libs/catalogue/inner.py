"""What the server gives inside a document: keys and times of its parts, kept as long as a part is what it was."""

import secrets
from collections.abc import Callable
from typing import Any, Final

from libs.contracts.problems import Problem, ValidationFailed
from libs.tally.errors import timestamp

Document = dict[str, Any]
Arrange = Callable[[Document | None, Document, int], None]
"""Fills in `after`, from what the record was `before` (None: it is new) and the time of the write (us).

Raises `ValidationFailed`.
"""

KEY_BYTES: Final = 12
_OWN: Final = ("key", "created", "updated")


def keyed(name: str) -> Arrange:
    """Of the items of list `name`, each with a key and times of its own.

    An item of a change that brings a known key is that one, changed; without a key it is new.
    """

    def arrange(before: Document | None, after: Document, at: int) -> None:
        known = {item["key"]: item for item in (before or {}).get(name, ())}
        taken: set[str] = set()
        problems: list[Problem] = []
        for index, item in enumerate(after.get(name, ())):
            key = None if before is None else item.get("key")
            if key in taken:
                problems.append(Problem(f"/{name}/{index}/key", "is there twice"))
            elif key is not None and key not in known:
                problems.append(Problem(f"/{name}/{index}/key", "is unknown; leave it out to add one"))
            else:
                _stamp(item, known.get(key or ""), at)
                taken.add(item["key"])
        if problems:
            raise ValidationFailed(problems)

    return arrange


def stamped(*path: str, default: Document | None = None) -> Arrange:
    """Of the object that `path` leads to, when it was changed last, if ever; a `default` makes it always there."""

    def arrange(before: Document | None, after: Document, at: int) -> None:
        own = _at(after, path)
        if own is None and default is not None:
            own = after[path[0]] = dict(default)
        if own is None:
            return
        old = _at(before or {}, path) or {}
        own.pop("updated", None)
        if _content(old) != _content(own):
            own["updated"] = timestamp(at)
        elif "updated" in old:
            own["updated"] = old["updated"]

    return arrange


def _stamp(item: Document, old: Document | None, at: int) -> None:
    """Complete an item, which was `old`."""
    now = timestamp(at)
    own = {"key": secrets.token_hex(KEY_BYTES), "created": now, "updated": now}
    if old is not None:
        own |= {"key": old["key"], "created": old["created"]}
        own |= {"updated": old["updated"]} if _content(old) == _content(item) else {}
    item |= own


def _content(part: Document) -> Document:
    return {name: value for name, value in part.items() if name not in _OWN}


def _at(document: Document, path: tuple[str, ...]) -> Document | None:
    found: Document | None = document
    for step in path:
        found = found.get(step) if found is not None else None
    return found
