"""Definition of a resource, one row of the table of resources, and functions that derive from it."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from libs.catalogue.errors import RecordTooLarge
from libs.catalogue.nested_items import Arrange
from libs.catalogue.schemas.base import Document, Record
from libs.contracts.catalogue_events import Ref, Stored
from libs.contracts.limits import compact_json, record_body, record_bytes
from libs.contracts.validation import Problem, checked
from libs.contracts.visible_text import visible_length

Operation = Literal["create", "place", "list", "get", "patch", "delete"]
"""`create` assigns a random key; `place` uses a key chosen by the account."""
OPERATIONS: Final[frozenset[Operation]] = frozenset(get_args(Operation)) - {"place"}
TITLED: Final = ("contests", "participants")
"""Resources that audiences identify by title."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A member with an enforced reference: the record it names must exist and cannot be deleted.

    `at` is a pointer, in which "*" stands for every item of a list. With `within_parent` the member names an
    offered part of the record's parent, such as a day of a convention.
    """

    at: str
    to: str
    within_parent: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """Parts of a record that others can reference: `at` points to their ids, `name` matches `Reference.to`."""

    at: str
    name: str


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource.

    `contest` names the contest whose configuration a change affects, `due` returns the time (us) of its next
    check. `complete` fills in a new document from its parent; `judge` raises to reject a change (before, after),
    `judge_deletion` to reject a deletion;
    `computed` returns members of a response that only the server sets.
    """

    name: str
    """Name in paths, in events, and in the views."""
    singular: str
    schema: type[Record]
    example: Document
    parent: str | None = None
    """Parent resource: records are created and listed below it, deleted with it, and numbered within it."""
    contest: Literal["self", "parent"] | None = None
    due: Callable[[Document], int | None] = lambda _: None
    sort_key: Callable[[Document], str] = lambda _: ""
    """Text without NUL that orders the records of one parent in their natural order; "" for resources without."""
    refusals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Error codes of the resource's own rules, by method, for the documentation."""
    references: tuple[Reference, ...] = ()
    offers: tuple[Offer, ...] = ()
    shared: Callable[[Document], bool] | None = None
    """True if records of other accounts can reference the record. This does not prevent its deletion."""
    complete: Callable[[Document, Document], None] | None = None
    judge: Callable[[Document, Document], None] | None = None
    judge_deletion: Callable[[Document], None] | None = None
    arrange: Arrange | None = None
    """Sets the server's members of nested items: `nested_items.py`."""
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Members of list items that only the legacy API uses, by list: a PATCH without them keeps them, matching
    items by `id`."""
    computed: Callable[[Stored], Document] | None = None
    timed: Callable[[Stored, int], Document] | None = None
    """Computes members that also depend on the time (us), so the entity tag includes them."""
    operations: frozenset[Operation] = OPERATIONS
    """Operations of the generic routes; others have their own router or do not exist."""

    def validated(self, body: Any, before: Document | None = None, others: Iterable[Problem] = ()) -> Document:
        """Return the canonical document of a record that was `before`.

        Raises `ValidationFailed`, also for any problems in `others`, and `RecordTooLarge`, unless the record was
        too large before.
        """
        document = checked(self.schema, body, [*others, *self._blank_title(body, before)], before).stored()
        if (size := self._bytes(document)) > self.max_bytes >= self._bytes(before or {}):
            raise RecordTooLarge(
                f"A {self.singular.replace('_', ' ')} may have at most {self.max_bytes:,} bytes as JSON, "
                f"not {size:,}.",
                max_bytes=self.max_bytes,
            )
        return document

    @property
    def max_bytes(self) -> int:
        """The largest size of a record, by what clients write of it."""
        return record_bytes(self.name)

    @property
    def body_bytes(self) -> int:
        """The largest body of a write of one record."""
        return record_body(self.name)

    def _bytes(self, document: Document) -> int:
        return len(compact_json({name: document[name] for name in document.keys() - self.schema.owned}))

    def _blank_title(self, body: Any, before: Document | None) -> Iterator[Problem]:
        """Yield a problem for a new title without a visible character; one stored earlier may be sent back."""
        title = body.get("title") if isinstance(body, dict) and self.name in TITLED else None
        is_blank = isinstance(title, str) and not visible_length(title)
        if is_blank and (before is None or before.get("title") != title):
            yield Problem("/title", "must have a visible character")

    def contest_of(self, key: str, parent: str) -> str | None:
        """Return the contest whose configuration version a change of this record raises."""
        return {"self": key, "parent": parent}.get(self.contest or "")

    def show(self, stored: Stored, now: int | None = None) -> Document:
        """Return the record as the current API's response, at `now` (us) or at present."""
        shown = self.schema.model_validate(stored.document).shown()
        computed = self.computed(stored) if self.computed is not None else {}
        timed = self.timed(stored, now or time.time_ns() // 1000) if self.timed is not None else {}
        return {"key": stored.key} | shown | computed | timed | stored.times


class Table(Mapping[str, Resource]):
    """The resources by name. References to resources outside of the table are not checked."""

    def __init__(self, *rows: Resource) -> None:
        """Raises `ValueError` for a reference by which a DELETE would have to examine all descendants."""
        self._rows = {row.name: row for row in rows}
        parts = {offer.name for row in rows for offer in row.offers}
        self._targets = {*self._rows, *parts}
        for row in rows:
            for reference in row.references:
                target = self._rows.get(reference.to)
                descends = target is not None and target.parent is not None
                if descends or reference.to == row.parent or reference.within_parent != (reference.to in parts):
                    raise ValueError(f"{row.name}{reference.at}: no reference to {reference.to} is possible")

    def __getitem__(self, name: str) -> Resource:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def references(self, row: Resource, document: Document, parent: str) -> dict[str, Ref]:
        """Return the enforced references of a document by the pointer to the member that holds them."""
        return {
            where: (reference.to, f"{parent}/{value}" if reference.within_parent else value)
            for reference in row.references
            if reference.to in self._targets
            for where, value in _found(document, reference.at.split("/")[1:], "")
        }

    def offers(self, row: Resource, document: Document, key: str) -> tuple[Ref, ...]:
        """Return the parts of a document that others can reference."""
        return tuple(
            (offer.name, f"{key}/{value}")
            for offer in row.offers
            for _, value in _found(document, offer.at.split("/")[1:], "")
        )


def _found(value: Any, steps: list[str], where: str) -> Iterator[tuple[str, str]]:
    """Yield the non-empty strings at the end of `steps`, with their pointers; skip everything else."""
    if not steps:
        if isinstance(value, str) and value:
            yield where, value
        return
    step, *rest = steps
    if step == "*" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _found(item, rest, f"{where}/{index}")
    elif isinstance(value, dict) and step in value:
        yield from _found(value[step], rest, f"{where}/{step}")
