"""What a row of the table of resources says, and what derives from it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from libs.catalogue.nested_items import Arrange
from libs.catalogue.schemas.base import Record
from libs.contracts.catalogue import Ref, Stored
from libs.tally.time import timestamp

Document = dict[str, Any]
Operation = Literal["create", "place", "list", "get", "patch", "delete"]
"""`create` is under a key of the server's, `place` at one of the account's own."""
OPERATIONS: Final[frozenset[Operation]] = frozenset(get_args(Operation)) - {"place"}


@dataclass(frozen=True, slots=True)
class Reference:
    """A member that names another record firmly: that one must exist, and cannot be deleted.

    `at` is a pointer, in which "*" stands for every item of a list. With `within_parent` the member names a part
    that the record's own parent offers, such as a day of a convention.
    """

    at: str
    to: str
    within_parent: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """Parts of a record that others may refer to: `at` points to their ids, `name` is what references are `to`."""

    at: str
    name: str


@dataclass(frozen=True, slots=True)
class Resource:
    """One row.

    `contest` says which contest's configuration a change concerns, `due` when somebody has to look at it next.
    `complete` fills in a new document from its parent; `judge` refuses a change (before, after) by raising;
    `computed` gives the members of a read that are not the owner's.
    """

    name: str
    """In paths, in events, and in the views."""
    singular: str
    schema: type[Record]
    example: Document
    parent: str | None = None
    """Belongs to one of these: made and listed under it, deleted with it, numbered within it."""
    contest: Literal["self", "parent"] | None = None
    due: Callable[[Document], int | None] = lambda _: None
    refusals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Codes of what the row's own rules refuse, by method, for the documentation."""
    references: tuple[Reference, ...] = ()
    offers: tuple[Offer, ...] = ()
    legacy: str | None = None
    """What the legacy generation calls one, where that differs."""
    shared: Callable[[Document], bool] | None = None
    """Whether records of other accounts may refer to one. They do so softly: its own account may delete it."""
    complete: Callable[[Document, Document], None] | None = None
    judge: Callable[[Document, Document], None] | None = None
    arrange: Arrange | None = None
    """Gives the parts of a document what is the server's: `inner.py`."""
    kept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Members that only the legacy generation names, of the items of lists: a PATCH that does not name them keeps
    them, by the items' `id`."""
    computed: Callable[[Stored], Document] | None = None
    computed_members: Mapping[str, Document] = field(default_factory=dict)
    """The JSON schemas of what `computed` gives, for the documentation."""
    operations: frozenset[Operation] = OPERATIONS
    """What the routes of all rows serve of it; the rest it has a router of its own for, or not at all."""

    def show(self, stored: Stored) -> Document:
        """The record as a read of the current API answers it."""
        shown = self.schema.model_validate(stored.document).shown()
        times = {"created": timestamp(stored.created), "updated": timestamp(stored.updated)}
        computed = self.computed(stored) if self.computed is not None else {}
        return {"key": stored.key} | shown | computed | times


class Table(Mapping[str, Resource]):
    """The resources by name. A reference to a resource that is no row (yet) is soft: it is not checked."""

    def __init__(self, *rows: Resource) -> None:
        self._rows = {row.name: row for row in rows}
        self._targets = {*self._rows, *(offer.name for row in rows for offer in row.offers)}

    def __getitem__(self, name: str) -> Resource:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def references(self, row: Resource, document: Document, parent: str) -> dict[str, Ref]:
        """The firm references of a document, each by the pointer to the member that holds it."""
        return {
            where: (reference.to, f"{parent}/{value}" if reference.within_parent else value)
            for reference in row.references
            if reference.to in self._targets
            for where, value in _found(document, reference.at.split("/")[1:], "")
        }

    def offers(self, row: Resource, document: Document, key: str) -> tuple[Ref, ...]:
        """What a document offers to the references of others."""
        return tuple(
            (offer.name, f"{key}/{value}")
            for offer in row.offers
            for _, value in _found(document, offer.at.split("/")[1:], "")
        )


def _found(value: Any, steps: list[str], where: str) -> Iterator[tuple[str, str]]:
    """The texts that the steps lead to, with pointers; what is not there, or no text, is passed over."""
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
